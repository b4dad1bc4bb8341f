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
/* From now on Ctrl-C, SIGTERM and SIGHUP do not end the program but make tt_screen_is_over true. */
void tt_screen_catch_end(void);
bool tt_screen_is_over(void);
/* Prints a line, or a part of one, in the colour of a mood.  Control characters are escaped, so
 * that names may be in it; a newline is possible at the end of the format only. */
void tt_screen_say(tt_mood mood, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints a table if st is TT_OK, and frees it.  Returns st, or what failed. */
tt_status tt_screen_table(tt_table *table, tt_status st);

/* Texts for people.  Each is valid until a dozen more have been made: they share a few buffers. */
const char *tt_screen_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *tt_screen_bytes(int64_t bytes); /* "1.2 MB" */
const char *tt_screen_count(int64_t count); /* "12 345" */
const char *tt_screen_number(double x);     /* "0.1235" */
const char *tt_screen_time(int64_t ns);     /* local: "2026-01-05 10:00:00" */
/* Type and shape of a point: "float32[8, 64]", "f32[8,64]", "number". */
const char *tt_screen_type(const tt_point *point, bool is_short);
const char *tt_screen_nonfinite(const tt_stats *stats); /* "3 NaN, 1 Inf"; empty: none */
/* Has it an Inf in float16, and its other values are large too, or there are none? */
bool tt_screen_has_overflowed(const tt_point *point);

#endif
