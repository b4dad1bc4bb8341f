/* json.h -- answers as JSON, for --json, on standard output.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_JSON_H
#define TT_CLI_JSON_H

#include "tensortap_tools.h"

/* Begins the answer of the program, which has one: an object.  It is printed while it is written. */
tt_json *tt_json_begin(void);
/* The same with the version of our schema.  list: NULL, or the name of a list that is its last member and
 * is begun, too. */
tt_json *tt_json_begin_schema(const char *list);
/* Ends it.  Returns st, or the failure of the writer. */
tt_status tt_json_end(tt_status st);
/* step, call, time, phase, value or statistics, dtype and shape: as members of the innermost
 * object, or as an object of this name. */
void tt_json_point(tt_json *json, const char *name, const tt_point *point);

enum { TT_COUNTS = 5, TT_NUMBERS = 9 };
/* The statistics of a point in the order in which JSON and csv have them. */
typedef struct tt_numbers {
    int64_t counts[TT_COUNTS];
    double numbers[TT_NUMBERS];
} tt_numbers;
tt_numbers tt_json_numbers(const tt_point *point);
const char *tt_json_dtype(const tt_point *point); /* NULL: a type that we do not know */
/* Adds "answers": a list (docs/schemas/answer.json). */
void tt_json_answers(tt_json *json, const tt_answers *answers);

#endif
