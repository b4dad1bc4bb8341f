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

enum { DRAIN_BYTES = 1 << 16 };

tt_status tt_json_finish(tt_json *json)
{
    assert(json->out->st < 0 || (json->is_complete && json->depth == 0));
    return json->out->st;
}

static void put(tt_json *json, const char *bytes, size_t n)
{
    (void)tt_buf_append(json->out, bytes, n);
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

static void put_string(tt_json *json, const char *text)
{
    size_t len = strlen(text);
    put(json, "\"", 1);
    size_t plain = 0; /* beginning of what can be copied as it is */
    for (size_t at = 0, n; at < len; at += n) {
        unsigned char byte = (unsigned char)text[at];
        n = 1;
        if (byte >= ' ' && byte < 0x7F && byte != '"' && byte != '\\')
            continue; /* nearly all text is plain ASCII */
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

/* Does each item of the innermost value begin a line? */
static bool has_lines(const tt_json *json)
{
    return json->depth == 1 || (json->depth == 2 && !json->level[1].is_object);
}

/* Writes what comes before a value: a comma, and in an object its name. */
static void begin(tt_json *json, const char *name)
{
    if (json->out->st < 0)
        return;
    if (json->depth == 0) {
        assert(name == NULL && !json->is_complete);
        json->is_complete = true;
        return;
    }
    assert(json->level[json->depth - 1].is_object == (name != NULL));
    if (json->level[json->depth - 1].has_items)
        put(json,
            !json->is_compact ? ", "
            : has_lines(json) ? ",\n"
                              : ",",
            json->is_compact && !has_lines(json) ? 1 : 2);
    json->level[json->depth - 1].has_items = true;
    if (json->drain != NULL && json->out->len > DRAIN_BYTES)
        json->drain(json->out);
    if (name != NULL) {
        put_string(json, name);
        put(json, ": ", json->is_compact ? 1 : 2);
    }
}

void tt_json_open(tt_json *json, const char *name, char bracket)
{
    assert(bracket == '{' || bracket == '[');
    begin(json, name);
    if (json->depth == TT_JSON_DEPTH && json->out->st == TT_OK)
        json->out->st = TT_EINVAL;
    if (json->out->st < 0)
        return;
    json->level[json->depth].is_object = bracket == '{';
    json->level[json->depth++].has_items = false;
    put(json, &bracket, 1);
}

void tt_json_close(tt_json *json)
{
    if (json->out->st < 0)
        return;
    assert(json->depth > 0);
    put(json, json->level[--json->depth].is_object ? "}" : "]", 1);
}

/* Writes a value that is ready. */
static void put_value(tt_json *json, const char *name, const char *text)
{
    begin(json, name);
    put(json, text, strlen(text));
}

void tt_json_text(tt_json *json, const char *name, const char *text)
{
    begin(json, name);
    if (text == NULL)
        put(json, "null", 4);
    else
        put_string(json, text);
}

static const char *special(double x)
{
    return isnan(x) ? "\"NaN\"" : x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

void tt_json_f64(tt_json *json, const char *name, double x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_f64(x, text);
    put_value(json, name, isfinite(x) ? text : special(x));
}

void tt_json_f32(tt_json *json, const char *name, float x)
{
    char text[TT_NUMBER_TEXT];
    (void)tt_number_f32(x, text);
    put_value(json, name, isfinite(x) ? text : special((double)x));
}

void tt_json_i64(tt_json *json, const char *name, int64_t x)
{
    begin(json, name);
    (void)tt_buf_int(json->out, x);
}

void tt_json_u64(tt_json *json, const char *name, uint64_t x)
{
    char text[TT_NUMBER_TEXT];
    (void)snprintf(text, sizeof text, "%" PRIu64, x);
    put_value(json, name, text);
}

void tt_json_bool(tt_json *json, const char *name, bool x)
{
    put_value(json, name, x ? "true" : "false");
}

void tt_json_ints(tt_json *json, const char *name, const int64_t *x, int64_t count)
{
    tt_json_open(json, name, '[');
    for (int64_t i = 0; i < count; i++)
        tt_json_i64(json, NULL, x[i]);
    tt_json_close(json);
}
