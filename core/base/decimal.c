/* decimal.c -- finds the fewest decimal digits that name a binary number.
 *
 * Exists because printf and strtod follow the locale of the host program, and
 * because printing 17 digits of every number makes tables nobody reads.
 *
 * All numbers that read back as x lie between the two midpoints to its
 * neighbours.  With x = r / s, and above / s and below / s the distances to the
 * midpoints, all exact integers, digits of r / s are taken off one by one
 * until what is left over could be dropped, or rounded up, without leaving
 * that interval.  No step rounds, so there is nothing to prove about errors;
 * most numbers people look at need two or three words.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/number.h"

#include <assert.h>
#include <math.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* A natural number, lowest word first.  The largest: 2^1077 for the smallest
 * f64, times 10, shifted by up to 63 bits, and a spare word. */
enum { WORDS = 20 };
typedef struct natural {
    int32_t len; /* words in use; the highest is not 0 */
    uint64_t word[WORDS];
} natural;

static void set_shifted(natural *n, uint64_t value, int32_t bits)
{
    int32_t skip = bits / 64, rest = bits % 64;
    for (int32_t i = 0; i < skip; i++)
        n->word[i] = 0;
    n->word[skip] = value << rest;
    n->word[skip + 1] = rest > 0 ? value >> (64 - rest) : 0;
    n->len = skip + (n->word[skip + 1] != 0 ? 2 : 1);
}

static void multiply(natural *n, uint64_t factor)
{
    uint64_t carry = 0;
    for (int32_t i = 0; i < n->len; i++) {
        wide product = (wide)n->word[i] * factor + carry;
        n->word[i] = (uint64_t)product;
        carry = (uint64_t)(product >> 64);
    }
    if (carry > 0) {
        assert(n->len < WORDS);
        n->word[n->len++] = carry;
    }
}

static void multiply_by_power(natural *n, int32_t power) /* of ten */
{
    for (; power > 19; power -= 19)
        multiply(n, 10000000000000000000u);
    uint64_t rest = 1;
    for (; power > 0; power--)
        rest *= 10;
    multiply(n, rest);
}

static int compare(const natural *a, const natural *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    for (int32_t i = a->len - 1; i >= 0; i--)
        if (a->word[i] != b->word[i])
            return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

/* How a + b compares to c. */
static int compare_sum(const natural *a, const natural *b, const natural *c)
{
    natural sum; /* not zeroed: only len words count */
    sum.len = a->len > b->len ? a->len : b->len;
    uint64_t carry = 0;
    for (int32_t i = 0; i < sum.len; i++) {
        wide s = (wide)(i < a->len ? a->word[i] : 0) + (i < b->len ? b->word[i] : 0) + carry;
        sum.word[i] = (uint64_t)s;
        carry = (uint64_t)(s >> 64);
    }
    if (carry > 0)
        sum.word[sum.len++] = carry;
    return compare(&sum, c);
}

static void subtract_multiple(natural *a, const natural *b, uint64_t times) /* a -= b * times */
{
    uint64_t carry = 0, borrow = 0;
    for (int32_t i = 0; i < a->len; i++) {
        wide product = (wide)(i < b->len ? b->word[i] : 0) * times + carry;
        carry = (uint64_t)(product >> 64);
        wide rest = (wide)a->word[i] - (uint64_t)product - borrow;
        a->word[i] = (uint64_t)rest;
        borrow = (uint64_t)(rest >> 64) & 1;
    }
    assert(carry == 0 && borrow == 0);
    while (a->len > 0 && a->word[a->len - 1] == 0)
        a->len--;
}

static void shift_left(natural *n, int32_t bits) /* 0 to 63 */
{
    uint64_t carry = 0;
    for (int32_t i = 0; bits > 0 && i < n->len; i++) {
        uint64_t word = n->word[i];
        n->word[i] = word << bits | carry;
        carry = word >> (64 - bits);
    }
    if (carry > 0) {
        assert(n->len < WORDS);
        n->word[n->len++] = carry;
    }
}

/* r / s, which is below 10, and leaves the remainder in r.  The highest word of
 * s has 60 bits, so that r is no longer than s, and a quotient of the highest
 * words is never too large and at most a little too small. */
static int take_digit(natural *r, const natural *s)
{
    int digit = 0;
    while (compare(r, s) >= 0) {
        uint64_t times = r->word[s->len - 1] / (s->word[s->len - 1] + 1);
        times += times == 0;
        subtract_multiple(r, s, times);
        digit += (int)times;
    }
    assert(digit < 10);
    return digit;
}

/* mantissa * 2^exponent, not zero.  has_near_lower: the lower neighbour is only
 * half as far away as the upper one. */
static void find_digits(tt_decimal *out, uint64_t mantissa, int32_t exponent, bool has_near_lower)
{
    bool is_even = mantissa % 2 == 0; /* ties read back as the even number */
    int32_t extra = has_near_lower ? 2 : 1, up = exponent > 0 ? exponent : 0;
    natural r, s, above, below;
    set_shifted(&r, mantissa, up + extra);
    set_shifted(&s, 1, up - exponent + extra);
    set_shifted(&above, 1, up + extra - 1);
    set_shifted(&below, 1, up);

    /* The power of ten just above x, or one less: floor(log10(2^b)) by integers. */
    int32_t bits = exponent + 63 - __builtin_clzll(mantissa);
    int32_t point = (int32_t)(((int64_t)bits * 1292913986) >> 32) + 1;
    if (point > 0) {
        multiply_by_power(&s, point);
    } else {
        multiply_by_power(&r, -point);
        multiply_by_power(&above, -point);
        multiply_by_power(&below, -point);
    }
    int cmp = compare_sum(&r, &above, &s);
    if (is_even ? cmp >= 0 : cmp > 0) {
        point++;
        multiply(&s, 10);
    }
    int32_t room = (__builtin_clzll(s.word[s.len - 1]) + 60) % 64;
    shift_left(&r, room);
    shift_left(&s, room);
    shift_left(&above, room);
    shift_left(&below, room);
    out->point = point;
    out->count = 0;
    for (;;) {
        multiply(&r, 10);
        multiply(&above, 10);
        multiply(&below, 10);
        int digit = take_digit(&r, &s);
        int down = compare(&r, &below), over = compare_sum(&r, &above, &s);
        bool may_drop = is_even ? down <= 0 : down < 0;
        bool may_raise = is_even ? over >= 0 : over > 0;
        assert(out->count < TT_DECIMAL_DIGITS);
        if (may_raise && may_drop) { /* to the nearer one; from the middle to the even one */
            int half = compare_sum(&r, &r, &s);
            digit += half > 0 || (half == 0 && digit % 2 == 1);
        } else if (may_raise) {
            digit++;
        }
        assert(digit < 10);
        out->digits[out->count++] = (char)('0' + digit);
        if (may_drop || may_raise)
            return;
    }
}

/* Whole numbers below 2^53 are most of what tables show, and need no more than
 * dividing: all their digits, less the zeros at the end, are the shortest. */
static void whole_digits(tt_decimal *out, uint64_t x)
{
    char text[TT_DECIMAL_DIGITS];
    int32_t at = TT_DECIMAL_DIGITS;
    for (; x > 0; x /= 10)
        text[--at] = (char)('0' + x % 10);
    out->count = out->point = TT_DECIMAL_DIGITS - at;
    memcpy(out->digits, text + at, (size_t)out->count);
    while (out->count > 0 && out->digits[out->count - 1] == '0')
        out->count--;
}

/* The digits of a number by the bits of its magnitude: `digits` of them are its fraction, and
 * an exponent of 0 in them stands for 2^lowest.  Bits, because a thread that flushes denormals
 * takes them for 0 in a comparison. */
static tt_decimal decimal_of(double size, bool is_negative, uint64_t bits, int32_t digits, int32_t lowest)
{
    tt_decimal out = { .is_negative = is_negative };
    uint64_t one = (uint64_t)1 << digits, fraction = bits & (one - 1);
    int32_t exponent = (int32_t)(bits >> digits);
    if (bits == 0 || (size >= 1 && size < 2 * (double)one && size == (double)(int64_t)size))
        whole_digits(&out, (uint64_t)size);
    else if (exponent == 0)
        find_digits(&out, fraction, lowest, false);
    else
        find_digits(&out, fraction | one, lowest + exponent - 1, fraction == 0 && exponent > 1);
    return out;
}

tt_decimal tt_decimal_f64(double x)
{
    assert(isfinite(x));
    double size = fabs(x);
    uint64_t bits;
    memcpy(&bits, &size, sizeof bits);
    return decimal_of(size, signbit(x) != 0, bits, 52, -1074);
}

tt_decimal tt_decimal_f32(float x)
{
    assert(isfinite(x));
    float size = fabsf(x);
    uint32_t bits;
    memcpy(&bits, &size, sizeof bits);
    return decimal_of((double)size, signbit(x) != 0, bits, 23, -149);
}
