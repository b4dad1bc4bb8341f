/* convert_kernel.c -- elements of every type as f32 or f64, exactly.
 *
 * Exists so that the other kernels are written for f32 and f64 alone.  The
 * only rounding is that of 64-bit integers to f64.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include <assert.h>
#include <string.h>

#if defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Shifts exponent and mantissa into place and lets one multiplication by 2^112
 * set the exponent right, which makes denormals come out normal.  NaN and Inf
 * (exponent 31) are put back by hand; NaN becomes quiet as in hardware. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t bits;
    if (magnitude >= 0x7c00u) {
        bits = 0x7f800000u | (magnitude & 0x3ffu) << 13;
        if (magnitude > 0x7c00u)
            bits |= 0x00400000u;
    } else {
        float x = float_of_bits(magnitude << 13) * 0x1p112f;
        memcpy(&bits, &x, sizeof bits);
    }
    return float_of_bits(bits | sign);
}

static void convert_half(const uint16_t *from, float *to, size_t n)
{
    size_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8) {
        __builtin_prefetch((const char *)(from + i) + 2048);
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
    }
#elif defined(__aarch64__)
    for (; i + 4 <= n; i += 4)
        vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
#endif
    for (; i < n; i++)
        to[i] = float_of_half(from[i]);
}

static void convert_bfloat(const uint16_t *from, float *to, size_t n)
{
    size_t i = 0;
#if defined(__AVX2__)
    for (; i + 8 <= n; i += 8) {
        __builtin_prefetch((const char *)(from + i) + 2048);
        __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
        _mm256_storeu_ps(to + i, _mm256_castsi256_ps(wide));
    }
#endif
    for (; i < n; i++)
        to[i] = float_of_bits((uint32_t)from[i] << 16);
}

/* An 8-bit float is a half with its mantissa cut and another bias: put the bits
 * where a half has them, and scale.  e4m3fn has no Inf and NaN at 0x7f; the
 * fnuz types have one NaN, where -0 would be, and no Inf. */
static float float_of_e4m3fn(uint8_t byte)
{
    if ((byte & 0x7f) == 0x7f)
        return float_of_bits(0x7fc00000u | (uint32_t)(byte & 0x80) << 24);
    return float_of_half((uint16_t)((byte & 0x80) << 8 | (byte & 0x7f) << 7)) * 256.0f;
}

static float float_of_e5m2(uint8_t byte)
{
    return float_of_half((uint16_t)(byte << 8));
}

/* shift: to where a float has the exponent; scale: for its bias. */
static inline float float_of_fnuz(uint8_t byte, int shift, float scale)
{
    if (byte == 0x80)
        return float_of_bits(0x7fc00000u);
    float x = float_of_bits((uint32_t)(byte & 0x7f) << shift) * scale;
    return (byte & 0x80) != 0 ? -x : x;
}

static float float_of_e4m3fnuz(uint8_t byte)
{
    return float_of_fnuz(byte, 20, 0x1p119f); /* 2^(127 - 8) */
}

static float float_of_e5m2fnuz(uint8_t byte)
{
    return float_of_fnuz(byte, 21, 0x1p111f); /* 2^(127 - 16) */
}

void TT_KERNEL(convert_f32)(tt_dtype dtype, const void *from, float *to, size_t n)
{
#define EACH(dtype_, function)          \
    case dtype_: {                      \
        const uint8_t *bytes = from;    \
        for (size_t i = 0; i < n; i++)  \
            to[i] = function(bytes[i]); \
        return;                         \
    }

    switch ((int)dtype) {
        EACH(TT_F8_E4M3FN, float_of_e4m3fn)
        EACH(TT_F8_E5M2, float_of_e5m2)
        EACH(TT_F8_E4M3FNUZ, float_of_e4m3fnuz)
        EACH(TT_F8_E5M2FNUZ, float_of_e5m2fnuz)
    case TT_BF16:
        convert_bfloat(from, to, n);
        return;
    case TT_F16:
        convert_half(from, to, n);
        return;
    default:
        assert(dtype == TT_F32);
        memcpy(to, from, n * sizeof *to);
    }
#undef EACH
}

void TT_KERNEL(convert_f64)(tt_dtype dtype, const void *from, double *to, size_t n)
{
#define EACH(dtype_, type)             \
    case dtype_: {                     \
        const type *items = from;      \
        for (size_t i = 0; i < n; i++) \
            to[i] = (double)items[i];  \
        return;                        \
    }

    switch (dtype) {
        EACH(TT_I8, int8_t)
        EACH(TT_I16, int16_t)
        EACH(TT_I32, int32_t)
        EACH(TT_I64, int64_t)
        EACH(TT_U8, uint8_t)
        EACH(TT_U16, uint16_t)
        EACH(TT_U32, uint32_t)
        EACH(TT_U64, uint64_t)
        EACH(TT_F64, double)
        EACH(TT_F32, float)
    case TT_BOOL: {
        const uint8_t *bytes = from; /* torch and NumPy: any byte but 0 is true */
        for (size_t i = 0; i < n; i++)
            to[i] = bytes[i] != 0 ? 1.0 : 0.0;
        return;
    }
    case TT_F16:
    case TT_BF16:
    case TT_F8_E4M3FN:
    case TT_F8_E5M2:
    case TT_F8_E4M3FNUZ:
    case TT_F8_E5M2FNUZ: {
        float tile[64];
        for (size_t at = 0; at < n; at += 64) {
            size_t some = n - at < 64 ? n - at : 64;
            TT_KERNEL(convert_f32)(dtype, (const char *)from + at * tt_dtype_size(dtype), tile, some);
            for (size_t i = 0; i < some; i++)
                to[at + i] = (double)tile[i];
        }
        return;
    }
    case TT_C64:
    case TT_C128:
    case TT_DTYPE_COUNT_:
        break;
    }
    assert(false);
#undef EACH
}
