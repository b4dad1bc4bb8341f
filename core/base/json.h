/* json.h -- writes JSON into a buffer.
 *
 *     tt_json json;
 *     tt_json_begin(&json, out);
 *     tt_json_object(&json);
 *     tt_json_key(&json, "mean");
 *     tt_json_f64(&json, 0.5);
 *     tt_json_end(&json);
 *     tt_status st = tt_json_finish(&json);
 *
 * Calls do not fail one by one: the first failure is kept, what follows it does
 * nothing, and finish reports it.  A sequence of calls that is not JSON (two
 * keys in a row, an end too many) is our own mistake and asserted.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_JSON_H
#define TT_BASE_JSON_H

#include "base/buf.h"

enum { TT_JSON_DEPTH = 64 }; /* deeper nesting is refused with TT_EINVAL */

typedef struct tt_json {
    tt_buf *out;  /* borrowed */
    tt_status st; /* the first failure */
    uint32_t depth;
    bool has_key;     /* a key waits for its value */
    bool is_complete; /* the outermost value is written */
    struct {
        bool is_object, has_items;
    } level[TT_JSON_DEPTH];
} tt_json;

void tt_json_begin(tt_json *json, tt_buf *out);
tt_status tt_json_finish(tt_json *json); /* on failure out holds a part of the text */

void tt_json_object(tt_json *json);
void tt_json_array(tt_json *json);
void tt_json_end(tt_json *json); /* of the innermost object or array */
void tt_json_key(tt_json *json, const char *key);

/* Bytes that are not UTF-8 become U+FFFD. */
void tt_json_string(tt_json *json, const char *text, size_t len);
void tt_json_text(tt_json *json, const char *text); /* up to its NUL; NULL: null */
/* NaN and the infinities, which JSON does not know, are the strings "NaN",
 * "Infinity" and "-Infinity", which JavaScript's and Python's numbers read. */
void tt_json_f64(tt_json *json, double x);
void tt_json_f32(tt_json *json, float x);
void tt_json_i64(tt_json *json, int64_t x);
void tt_json_u64(tt_json *json, uint64_t x);
void tt_json_bool(tt_json *json, bool x);
void tt_json_null(tt_json *json);

#endif
