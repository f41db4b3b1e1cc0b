/* SPDX-License-Identifier: PostgreSQL */
/* Judges one duty of a picture whose trail is written: state, age, mismatch, progress. Pure. */
#pragma once

#include "observe/snapshot.h"

void judge_duty(const struct snapshot *snapshot, struct duty *duty);
