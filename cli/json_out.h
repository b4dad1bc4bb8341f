/* json_out.h -- answers as JSON, for --json.  Written straight to standard output.
 *
 * A name of NULL is a member of an array.  Not-a-number and the infinities are the
 * strings "NaN", "Infinity", "-Infinity".
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_JSON_OUT_H
#define TT_CLI_JSON_OUT_H

#include "tensortap_tools.h"

typedef struct tt_json_out {
    bool has_items; /* a comma is needed */
    int depth;
} tt_json_out;

void tt_json_open(tt_json_out *json, const char *name, char bracket);      /* '{' or '[' */
void tt_json_close(tt_json_out *json, char bracket);                       /* '}' or ']' */
void tt_json_words(tt_json_out *json, const char *name, const char *text); /* NULL: null */
void tt_json_number(tt_json_out *json, const char *name, double x);
void tt_json_whole(tt_json_out *json, const char *name, int64_t x);
void tt_json_flag(tt_json_out *json, const char *name, bool x);
/* step, call, time, phase, value or statistics, dtype and shape, as members. */
void tt_json_point(tt_json_out *json, const tt_point *point);

#endif
