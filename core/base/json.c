/* json.c -- writes JSON into a buffer.
 *
 * Exists so that everything we hand to other programs parses: escaping, bytes
 * that are no text, and NaN are dealt with here and nowhere else.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/number.h"
#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tt_json_begin(tt_json *json, tt_buf *out)
{
    assert(out != NULL);
    json->out = out;
    json->st = TT_OK;
    json->depth = 0;
    json->has_key = false;
    json->is_complete = false;
}

tt_status tt_json_finish(tt_json *json)
{
    assert(json->st < 0 || (json->is_complete && json->depth == 0));
    return json->st;
}

static void put(tt_json *json, const char *bytes, size_t n)
{
    if (json->st == TT_OK)
        json->st = tt_buf_append(json->out, bytes, n);
}

/* What stands before a value or a key, and the check that one may stand here. */
static void before_item(tt_json *json, bool is_key)
{
    if (json->st < 0)
        return;
    if (json->depth == 0) {
        assert(!is_key && !json->is_complete);
        json->is_complete = true;
        return;
    }
    bool is_object = json->level[json->depth - 1].is_object;
    assert(is_key ? is_object && !json->has_key : is_object == json->has_key);
    if (!json->has_key) {
        if (json->level[json->depth - 1].has_items)
            put(json, ", ", 2);
        json->level[json->depth - 1].has_items = true;
    }
    json->has_key = is_key;
    (void)is_object;
}

static void open_level(tt_json *json, bool is_object)
{
    before_item(json, false);
    if (json->st == TT_OK && json->depth == TT_JSON_DEPTH)
        json->st = TT_EINVAL;
    if (json->st < 0)
        return;
    json->level[json->depth].is_object = is_object;
    json->level[json->depth].has_items = false;
    json->depth++;
    put(json, is_object ? "{" : "[", 1);
}

void tt_json_object(tt_json *json)
{
    open_level(json, true);
}

void tt_json_array(tt_json *json)
{
    open_level(json, false);
}

void tt_json_end(tt_json *json)
{
    if (json->st < 0)
        return;
    assert(json->depth > 0 && !json->has_key);
    json->depth--;
    put(json, json->level[json->depth].is_object ? "}" : "]", 1);
}

/* Writes one character that may not stand in a JSON string as it is. */
static void put_escaped(tt_json *json, uint32_t c)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = c != 0 && c < 0x80 ? strchr(names, (int)c) : NULL;
    char text[16];
    int n = found != NULL ? snprintf(text, sizeof text, "\\%c", letters[found - names])
            : c < 0x10000 ? snprintf(text, sizeof text, "\\u%04" PRIx32, c)
                          : snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32,
                                     0xD800 + ((c - 0x10000) >> 10), 0xDC00 + ((c - 0x10000) & 0x3FF));
    put(json, text, (size_t)n);
}

static void put_string(tt_json *json, const char *text, size_t len)
{
    put(json, "\"", 1);
    size_t plain = 0; /* beginning of what can be copied as it is */
    for (size_t at = 0, n; at < len; at += n) {
        uint32_t c;
        n = tt_utf8_read(text + at, len - at, &c);
        bool is_invalid = c == TT_UTF8_INVALID;
        if (!is_invalid && c != '"' && c != '\\' && !tt_utf8_is_treacherous(c))
            continue;
        put(json, text + plain, at - plain);
        plain = at + n;
        if (is_invalid)
            put(json, "\xEF\xBF\xBD", 3);
        else
            put_escaped(json, c);
    }
    put(json, text + plain, len - plain);
    put(json, "\"", 1);
}

void tt_json_key(tt_json *json, const char *key)
{
    before_item(json, true);
    put_string(json, key, strlen(key));
    put(json, ": ", 2);
}

void tt_json_string(tt_json *json, const char *text, size_t len)
{
    before_item(json, false);
    put_string(json, text, len);
}

tt_status tt_json_quote(const char *text, tt_buf *out)
{
    tt_json json;
    tt_json_begin(&json, out);
    tt_json_string(&json, text, strlen(text));
    return tt_json_finish(&json);
}

void tt_json_text(tt_json *json, const char *text)
{
    if (text == NULL)
        tt_json_null(json);
    else
        tt_json_string(json, text, strlen(text));
}

static void put_special(tt_json *json, double x)
{
    const char *text = isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    put(json, text, strlen(text));
}

void tt_json_f64(tt_json *json, double x)
{
    before_item(json, false);
    char text[TT_NUMBER_TEXT];
    if (isfinite(x))
        put(json, text, tt_number_f64(x, text));
    else
        put_special(json, x);
}

void tt_json_f32(tt_json *json, float x)
{
    before_item(json, false);
    char text[TT_NUMBER_TEXT];
    if (isfinite(x))
        put(json, text, tt_number_f32(x, text));
    else
        put_special(json, (double)x);
}

void tt_json_i64(tt_json *json, int64_t x)
{
    before_item(json, false);
    char text[TT_NUMBER_TEXT];
    put(json, text, (size_t)snprintf(text, sizeof text, "%" PRId64, x));
}

void tt_json_u64(tt_json *json, uint64_t x)
{
    before_item(json, false);
    char text[TT_NUMBER_TEXT];
    put(json, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, x));
}

void tt_json_bool(tt_json *json, bool x)
{
    before_item(json, false);
    put(json, x ? "true" : "false", x ? 4 : 5);
}

void tt_json_null(tt_json *json)
{
    before_item(json, false);
    put(json, "null", 4);
}
