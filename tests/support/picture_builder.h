/* SPDX-License-Identifier: PostgreSQL */
/* Pictures made by hand, so that what is rendered is tested without a database. Every time in them
 * is fixed: two renderings are equal. */
#pragma once

#include "observe/publish.h"

/* When the snapshots below were read, by the server's clock. */
#define BUILT_NOW_US INT64_C(1764437312123456)

/* A snapshot of a privileged primary with a ledger and room for n duties, each with every "not
 * known" in place and named "" so far. */
struct snapshot *build_snapshot(size_t n_duties);

/* Makes a duty of the config's: a lock that is read and vacant, never owned. */
void build_duty(struct duty *duty, const char *name, int64_t key);

/* Gives it an owner, acquired so many microseconds ago and seen to happen. */
void build_owner(struct duty *duty, int32_t pid, const char *holder, int64_t age_us);

/* A publication that owns the snapshot (NULL: never reached), polled 250 ms ago. */
struct published *build_published(const char *server, struct snapshot *snapshot);

/* A picture that owns the publications; each is fresh if it has a snapshot. Freed by picture_done.
 */
void build_picture(struct picture *ret_picture, struct published *const *servers, size_t n);

/* A primary with a duty in every state and from every source, a standby, a server whose picture is
 * old, and one never reached. */
void build_example(struct picture *ret_picture);

/* One primary with n duties that are led and have a ledger: about 25 series each. */
void build_many(struct picture *ret_picture, size_t n);

/* One server with one led duty, and text in every field that can hold text. */
void build_hostile(struct picture *ret_picture, const char *text);
