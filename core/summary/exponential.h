/* exponential.h -- e^x and log x in f64 with the same bits on every machine.
 *
 * Exists because the C library's differ between processors (some use fused
 * multiplication) and our summaries may not.  Written with + - * / alone.
 * For summary only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_EXPONENTIAL_H
#define TT_SUMMARY_EXPONENTIAL_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ln 2 in two parts; the first has 21 bits, so that n * TT_LN2_HIGH is exact. */
#define TT_LN2_HIGH 0x1.62e42p-1
#define TT_LN2_LOW 0x1.fdf473de6af28p-22
#define TT_LOG2_E 0x1.71547652b82fep+0

static inline double tt_power_of_two(int64_t n) /* -1022 <= n <= 1023 */
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* e^x for x <= 0; 0 below -708; NaN for NaN.  e^x = 2^n e^r with |r| <= ln 2 / 2,
 * where the Taylor series to r^13 is off by less than 1e-17.  Error below 2 ulp. */
static inline double tt_exp_negative(double x)
{
    if (x < -708.0)
        return 0.0;
    if (x != x)
        return x;
    double n = floor(x * TT_LOG2_E + 0.5);
    double r = (x - n * TT_LN2_HIGH) - n * TT_LN2_LOW;
    static const double over_factorial[] = {
        /* 1/13! ... 1/2! */
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
        1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
        1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5,
    };
    double p = 0.0;
    for (size_t i = 0; i < sizeof over_factorial / sizeof *over_factorial; i++)
        p = p * r + over_factorial[i];
    return (1.0 + (r + r * r * p)) * tt_power_of_two((int64_t)n);
}

/* log x for normal, finite x > 0.  x = 2^n m with m around 1, and log m =
 * 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.172: the series to s^23 is off
 * by less than 1e-18.  Error below 2 ulp; log 1 is 0. */
static inline double tt_log_positive(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t n = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        n++;
    }
    double s = (m - 1.0) / (m + 1.0), square = s * s, p = 0.0;
    for (int odd = 23; odd >= 3; odd -= 2)
        p = p * square + 1.0 / odd;
    return (double)n * TT_LN2_HIGH + (2.0 * s + (2.0 * s * square * p + (double)n * TT_LN2_LOW));
}

#endif
