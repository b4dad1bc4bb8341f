/* screen.h -- where the answer goes: a terminal or a pipe, how wide, in colour or not.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_SCREEN_H
#define TT_CLI_SCREEN_H

#include "tensortap_tools.h"

typedef struct tt_screen {
    tt_style style; /* columns 0: a pipe, and COLUMNS is not set */
    int32_t rows;   /* 0: no limit */
    bool is_terminal;
} tt_screen;

void tt_screen_look(tt_screen *screen);
/* Prints and empties it; returns what st was, or TT_ENOMEM told to err. */
tt_status tt_screen_print(tt_buf *text, tt_status st, tt_error *err);

/* Texts for people.  Each needs room for TT_NUMBER_TEXT. */
const char *tt_screen_bytes(int64_t bytes, char *out); /* "1.2 MB" */
const char *tt_screen_count(int64_t count, char *out); /* "12 345" */
/* Type and shape of a point: "float32[8, 64]", "f32[8,64]", "number". */
const char *tt_screen_type(const tt_point *point, bool is_short, char *out, size_t room);
/* "3 NaN, 1 Inf"; empty: none. */
/* An Inf in a float16 tensor whose other values are large too, or that has no others. */
bool tt_screen_has_overflowed(const tt_stats *stats);
const char *tt_screen_nonfinite(const tt_stats *stats, char *out, size_t room);
/* Local time, "2026-01-05 10:00:00". */
const char *tt_screen_time(int64_t ns, char *out, size_t room);
/* A name made safe and printed. */
void tt_screen_name(const tt_screen *screen, const char *name);

#endif
