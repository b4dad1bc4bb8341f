/* range.c -- steps as people write them.
 *
 * Exists so that every command takes the same words; strtoll would take " 3" and
 * "0x3" too.
 * SPDX-License-Identifier: Apache-2.0 */
#include "range.h"

#include <stddef.h>

/* Digits from text on; *end is what follows.  False: none, or too large. */
static bool parse_digits(const char *text, const char **end, int64_t *out)
{
    int64_t x = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';
        if (x > (INT64_MAX - digit) / 10)
            return false;
        x = x * 10 + digit;
    }
    *end = at;
    *out = x;
    return at > text;
}

bool tt_range_count(const char *text, void *out)
{
    const char *end;
    int64_t x;
    if (!parse_digits(text, &end, &x) || *end != '\0')
        return false;
    *(int64_t *)out = x;
    return true;
}

bool tt_range_parse(const char *text, void *out)
{
    tt_range range = TT_RANGE_ALL;
    const char *at = text;
    if (*at != ':' && !parse_digits(at, &at, &range.first))
        return false;
    if (*at == '\0') {
        range.last = range.first;
    } else {
        if (*at++ != ':')
            return false;
        if (*at != '\0' && (!parse_digits(at, &at, &range.last) || *at != '\0'))
            return false;
    }
    if (range.first > range.last || at == text)
        return false;
    *(tt_range *)out = range;
    return true;
}
