/* number.c -- numbers as text, the same in every locale.
 *
 * Exists so that files, tables and JSON all write a number one way, and because printing 17
 * digits of every number makes tables nobody reads.  The C library rounds to any number of
 * digits, and reads them, correctly.  Its decimal point follows the locale of the host program,
 * so none is read or written: a number goes back as "123e-7".  Every text of 15 digits is told
 * apart by f64, and every one of 6 by f32: a shorter one comes out of these with zeros at its end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include "base/float_mode.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the fewest digits that name a number ------------------------------------ */

/* digits * 10^power */
typedef struct rounded {
    uint64_t digits;
    int32_t power;
} rounded;

static rounded round_to(double size, int32_t count)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%.*e", count - 1, size);
    const char *exponent = strrchr(text, 'e');
    rounded out = { .digits = (uint64_t)(text[0] - '0'), .power = atoi(exponent + 1) - (count - 1) };
    for (const char *at = exponent - (count - 1); at < exponent; at++)
        out.digits = out.digits * 10 + (uint64_t)(*at - '0');
    return out;
}

/* Bits are compared, because a thread may see denormals as zero. */
static bool reads_back(rounded r, double size, bool is_narrow)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%" PRIu64 "e%" PRId32, r.digits, r.power);
    double back = is_narrow ? (double)strtof(text, NULL) : strtod(text, NULL);
    return memcmp(&back, &size, sizeof back) == 0;
}

static tt_decimal decimal_of(rounded r, bool is_negative)
{
    tt_decimal out = { .is_negative = is_negative };
    char text[20];
    int32_t at = sizeof text;
    for (; r.digits > 0 && r.digits % 10 == 0; r.digits /= 10)
        r.power++;
    for (; r.digits > 0; r.digits /= 10)
        text[--at] = (char)('0' + r.digits % 10);
    out.count = (int32_t)sizeof text - at;
    out.point = out.count > 0 ? out.count + r.power : 0;
    memcpy(out.digits, text + at, (size_t)out.count);
    return out;
}

/* Of a number that is not whole: all digits that it may need, then fewer.  Below a power of two
 * the numbers lie closer, so that the nearest text may be that of another number and the next one
 * above it that of this one. */
static rounded find_digits(double size, bool is_narrow)
{
    int32_t most = is_narrow ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG, exponent;
    bool is_power = frexp(size, &exponent) == 0.5;
    bool is_denormal = size < (is_narrow ? (double)FLT_MIN : DBL_MIN);
    rounded all = round_to(size, most);
    uint64_t reach = (all.digits >> (is_narrow ? FLT_MANT_DIG : DBL_MANT_DIG)) + 1; /* half a unit */
    for (int32_t count = is_denormal ? 1 : is_narrow ? FLT_DIG : DBL_DIG; count < most; count++) {
        uint64_t scale = 1;
        for (int32_t i = count; i < most; i++)
            scale *= 10;
        rounded r = { (all.digits + scale / 2) / scale, all.power + most - count };
        uint64_t rest = all.digits % scale, away = rest < scale / 2 ? rest : scale - rest;
        if (away > reach && !is_power && !is_denormal)
            continue;
        if (2 * rest == scale) /* perhaps not a half, but rounded to one */
            r = round_to(size, count);
        if (reads_back(r, size, is_narrow))
            return r;
        r.digits++;
        if (is_power && reads_back(r, size, is_narrow))
            return r;
    }
    return all;
}

static tt_decimal find(double x, bool is_narrow)
{
    assert(isfinite(x));
    uint64_t mode = tt_float_mode_begin();
    double size = tt_float_mode_keep(fabs(x));
    bool is_whole = size < (is_narrow ? 0x1p24 : 0x1p53) && size == (double)(uint64_t)size;
    rounded r = is_whole ? (rounded){ .digits = (uint64_t)size } : find_digits(size, is_narrow);
    tt_decimal out = decimal_of(r, signbit(x) != 0);
    tt_float_mode_end(mode);
    return out;
}

tt_decimal tt_decimal_f64(double x)
{
    return find(x, false);
}

tt_decimal tt_decimal_f32(float x)
{
    return find((double)x, true);
}

/* ---- how they are laid out ---------------------------------------------------- */

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
    return at + sprintf(at, "e%+03d", (int)d->point - 1);
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
static void keep_digits(tt_decimal *d, int32_t digits)
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
        keep_digits(&d, is_long ? 3 : d.point > 4 && d.point <= 6 ? d.point : 4);
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
