/* number.c -- numbers as text, the same in every locale.
 *
 * Exists so that files, tables and JSON all write a number one way.  The
 * digits come from decimal.c; this file only lays them out.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static size_t put_special(double x, char *out)
{
    const char *text = isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
    size_t len = strlen(text);
    memcpy(out, text, len + 1);
    return len;
}

static char *put_zeros(char *at, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        *at++ = '0';
    return at;
}

static char *put_digits(char *at, const tt_decimal *d, int32_t from, int32_t to)
{
    for (int32_t i = from; i < to && i < d->count; i++)
        *at++ = d->digits[i];
    return at;
}

/* "1.5e-07": at least two digits of exponent, as printf and Python write it. */
static char *put_scientific(char *at, const tt_decimal *d)
{
    at = put_digits(at, d, 0, 1);
    if (d->count > 1)
        *at++ = '.';
    at = put_digits(at, d, 1, d->count);
    int32_t power = d->point - 1, size = power < 0 ? -power : power;
    *at++ = 'e';
    *at++ = power < 0 ? '-' : '+';
    if (size >= 100)
        *at++ = (char)('0' + size / 100);
    *at++ = (char)('0' + size / 10 % 10);
    *at++ = (char)('0' + size % 10);
    return at;
}

static char *put_plain(char *at, const tt_decimal *d)
{
    if (d->point <= 0) {
        *at++ = '0';
        if (d->count > 0) {
            *at++ = '.';
            at = put_zeros(at, -d->point);
            at = put_digits(at, d, 0, d->count);
        }
        return at;
    }
    at = put_digits(at, d, 0, d->point);
    at = put_zeros(at, d->point - d->count);
    if (d->count > d->point) {
        *at++ = '.';
        at = put_digits(at, d, d->point, d->count);
    }
    return at;
}

static size_t put_shortest(const tt_decimal *d, char *out)
{
    char *at = out;
    if (d->is_negative)
        *at++ = '-';
    if (d->count > 0 && (d->point < -3 || d->point > 16)) {
        at = put_scientific(at, d);
    } else {
        at = put_plain(at, d);
        if (d->count <= d->point) { /* whole: say that it is a floating-point number */
            *at++ = '.';
            *at++ = '0';
        }
    }
    *at = '\0';
    assert(at - out < TT_NUMBER_TEXT);
    return (size_t)(at - out);
}

size_t tt_number_f64(double x, char out[TT_NUMBER_TEXT])
{
    if (!isfinite(x))
        return put_special(x, out);
    tt_decimal d = tt_decimal_f64(x);
    return put_shortest(&d, out);
}

size_t tt_number_f32(float x, char out[TT_NUMBER_TEXT])
{
    if (!isfinite(x))
        return put_special((double)x, out);
    tt_decimal d = tt_decimal_f32(x);
    return put_shortest(&d, out);
}

/* Keeps the first digits, a half counts as one: 0.12345 becomes 0.1235.  It is
 * the decimal text that is rounded, so that nobody wonders about 0.15. */
static void round_to(tt_decimal *d, int32_t digits)
{
    if (d->count <= digits)
        return;
    bool is_up = d->digits[digits] >= '5';
    d->count = digits;
    while (is_up && d->count > 0 && d->digits[d->count - 1] == '9')
        d->count--;
    if (is_up && d->count == 0) {
        d->digits[0] = '1';
        d->count = 1;
        d->point++;
    } else if (is_up) {
        d->digits[d->count - 1]++;
    }
    while (d->count > 0 && d->digits[d->count - 1] == '0')
        d->count--;
}

/* The first four digits of everyday numbers without the exact arithmetic, which
 * a log of statistics would spend most of its time on.  The product is off by
 * 1e-9 at most, as powers of ten up to 1e10 are exact: the seventh digit tells on
 * which side of a half the rest is, unless it is one to within that error. */
static bool find_four(double x, tt_decimal *out)
{
    double size = fabs(x), scale = 1e10, limit = 1e-3;
    int32_t point = -3; /* 0.0001 is 0.1e-3 */
    if (!(size >= 1e-4 && size < 1e4))
        return false;
    for (; size >= limit; limit *= 10, point++)
        scale /= 10;
    int64_t seven = (int64_t)(size * scale + 0.5);
    int64_t rest = seven % 1000;
    if (rest == 0 || rest == 500 || seven < 1000000 || seven > 9999000)
        return false; /* perhaps whole, a half, next to a power of ten */
    int64_t four = seven / 1000 + (rest > 500 ? 1 : 0);
    *out = (tt_decimal){ .count = 4, .point = point, .is_negative = x < 0 };
    for (int i = 3; i >= 0; i--, four /= 10)
        out->digits[i] = (char)('0' + four % 10);
    while (out->count > 1 && out->digits[out->count - 1] == '0')
        out->count--;
    return true;
}

size_t tt_number_short(double x, char out[TT_NUMBER_TEXT])
{
    if (!isfinite(x))
        return put_special(x, out);
    tt_decimal d;
    bool is_four = find_four(x, &d);
    if (!is_four)
        d = tt_decimal_f64(x);
    bool is_whole = d.count <= d.point && d.point <= 9;
    if (!is_four && !is_whole && d.count > 0) {
        bool is_long = d.point - 1 <= -100 || d.point - 1 >= 100; /* three digits of exponent */
        round_to(&d, is_long ? 3 : d.point > 4 && d.point <= 6 ? d.point : 4);
    }
    char *at = out;
    if (d.is_negative)
        *at++ = '-';
    at = d.count > 0 && (d.point < -3 || d.point > (is_whole ? 9 : 6)) ? put_scientific(at, &d)
                                                                       : put_plain(at, &d);
    *at = '\0';
    assert(at - out <= 10);
    return (size_t)(at - out);
}
