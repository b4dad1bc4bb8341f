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

extern tt_screen tt_terminal; /* as tt_screen_look found it last */

void tt_screen_look(void);
/* Starts a colour, for text outside tables; "" without colour. */
const char *tt_screen_ink(tt_mood mood);
/* Prints text of ours in the colour of a mood. */
void tt_screen_say(tt_mood mood, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a table if st is TT_OK, and frees it.  Returns st, or what failed. */
tt_status tt_screen_table(tt_table *table, bool has_titles, tt_status st);

/* Texts for people.  Each needs room for TT_NUMBER_TEXT. */
const char *tt_screen_bytes(int64_t bytes, char *out); /* "1.2 MB" */
const char *tt_screen_count(int64_t count, char *out); /* "12 345" */
/* Type and shape of a point: "float32[8, 64]", "f32[8,64]", "number". */
const char *tt_screen_type(const tt_point *point, bool is_short, char *out, size_t room);
/* An Inf in a float16 tensor whose other values are large too, or that has no others. */
bool tt_screen_has_overflowed(const tt_stats *stats);
/* "3 NaN, 1 Inf"; empty: none. */
const char *tt_screen_nonfinite(const tt_stats *stats, char *out, size_t room);
/* Local time, "2026-01-05 10:00:00". */
const char *tt_screen_time(int64_t ns, char *out, size_t room);
/* Prints an untrusted name, escaped. */
void tt_screen_name(const char *name);

#endif
