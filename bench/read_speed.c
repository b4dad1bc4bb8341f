/* read_speed.c -- how fast one core of this machine can read, as a plain sum.
 *
 * The measure that bench/ compares with.  Sums f32 with as many accumulators as
 * the loop needs to wait for memory alone; what the bits mean does not matter.
 * Built by harness.py, called through ctypes.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#if defined(__AVX2__)
#include <immintrin.h>

float read_sum(const float *x, size_t n)
{
    __m256 a = _mm256_setzero_ps(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        a = _mm256_add_ps(a, _mm256_loadu_ps(x + i));
        b = _mm256_add_ps(b, _mm256_loadu_ps(x + i + 8));
        c = _mm256_add_ps(c, _mm256_loadu_ps(x + i + 16));
        d = _mm256_add_ps(d, _mm256_loadu_ps(x + i + 24));
    }
    float lanes[8], sum = 0;
    _mm256_storeu_ps(lanes, _mm256_add_ps(_mm256_add_ps(a, b), _mm256_add_ps(c, d)));
    for (int k = 0; k < 8; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += x[i];
    return sum;
}
#else
float read_sum(const float *x, size_t n)
{
    float lanes[32] = { 0 }, sum = 0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t k = 0; k < 32; k++)
            lanes[k] += x[i + k];
    for (int k = 0; k < 32; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += x[i];
    return sum;
}
#endif
