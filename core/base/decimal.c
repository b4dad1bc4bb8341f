/* decimal.c -- finds the fewest decimal digits that name a binary number.
 *
 * Exists because printing 17 digits of every number makes tables nobody reads.  The C library
 * rounds to any number of digits, and reads them, correctly.  Its decimal point follows the
 * locale of the host program, so none is read or written: a number goes back as "123e-7".
 * Every text of 15 digits is told apart by f64, and every one of 6 by f32: a shorter one
 * comes out of these with zeros at its end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/float_mode.h"
#include "base/number.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
