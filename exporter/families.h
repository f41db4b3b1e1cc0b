/* SPDX-License-Identifier: PostgreSQL */
/* The families whose samples carry labels of their own: infos, histograms, counters by rule. Each
 * writes all samples of one subject. */
#pragma once

#include "exporter/sample.h"

void write_build_info(struct writer *writer, const struct subject *subject);
void write_section_up(struct writer *writer, const struct subject *subject);
void write_poll_seconds(struct writer *writer, const struct subject *subject);
void write_server_info(struct writer *writer, const struct subject *subject);
void write_takeover_seconds(struct writer *writer, const struct subject *subject);
void write_duty_info(struct writer *writer, const struct subject *subject);
void write_owner_info(struct writer *writer, const struct subject *subject);
void write_transitions(struct writer *writer, const struct subject *subject);
void write_yields(struct writer *writer, const struct subject *subject);

/* Who leads is known and somebody does: only then is anything said of the owner. False on a
 * standby, whose locks are not the primary's. */
bool subject_led(const struct subject *subject);
