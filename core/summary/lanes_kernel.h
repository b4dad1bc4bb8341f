/* lanes_kernel.h -- eight virtual f32 lanes, four virtual f64 lanes, sixteen 16-bit floats.
 *
 * For *_kernel.c only.  AVX2 holds them in one register, SSE2 and NEON in two; an operation
 * does the same to each lane everywhere, so that sums come out the same bit for bit.  Masks
 * are lanes of all ones or all zeros.  The vectors are the compilers' own; intrinsics are used
 * only where those have no word, or no good one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_LANES_KERNEL_H
#define TT_SUMMARY_LANES_KERNEL_H

#include "summary/kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* A table of operations, a line each. */
/* clang-format off */

/* TT_VECTOR makes f32r, the vector of one register, and f32v, the virtual one.
 * TT_LANES makes an operation on virtual vectors from one on their registers x and y. */
#if defined(__AVX2__)
#define TT_REGISTER 32
#define TT_VECTOR(name, element)                                       \
    typedef element name##r __attribute__((vector_size(TT_REGISTER))); \
    typedef name##r name##v;
#define TT_LANES(result, name, first, second, expression)                                        \
    static inline result##v name(first##v x, second##v y) { (void)y; return (result##r)(expression); }
#else
#define TT_REGISTER 16
#define TT_VECTOR(name, element)                                       \
    typedef element name##r __attribute__((vector_size(TT_REGISTER))); \
    typedef struct name##v { name##r low, high; } name##v;
#define TT_LANES(result, name, first, second, expression)                                            \
    static inline result##r name##_half(first##r x, second##r y) { (void)y; return (result##r)(expression); } \
    static inline result##v name(first##v a, second##v b)                                            \
    {                                                                                                \
        return (result##v){ name##_half(a.low, b.low), name##_half(a.high, b.high) };                \
    }
#endif
TT_VECTOR(f32, float)
TT_VECTOR(f64, double)
TT_VECTOR(i32, int32_t)
TT_VECTOR(i64, int64_t)
TT_VECTOR(u16, uint16_t)
typedef int16_t i16r __attribute__((vector_size(TT_REGISTER)));
typedef uint32_t u32r __attribute__((vector_size(TT_REGISTER)));
typedef uint64_t u64r __attribute__((vector_size(TT_REGISTER)));

#if defined(__AVX2__)
#define TT_BOTH(v, x) (x)
#else
#define TT_BOTH(v, x) ((v){ (x), (x) })
#endif
#define TT_MEMORY(name, element)                                                                           \
    static inline name##v name##v_load(const element *x) { name##v a; memcpy(&a, x, sizeof a); return a; } \
    static inline void name##v_store(element *x, name##v a) { memcpy(x, &a, sizeof a); }                   \
    static inline name##v name##v_set(element x) { return TT_BOTH(name##v, x - (name##r){ 0 }); }
TT_MEMORY(f32, float)
TT_MEMORY(f64, double)
TT_MEMORY(i32, int32_t)
TT_MEMORY(i64, int64_t)
TT_MEMORY(u16, uint16_t)
#undef TT_MEMORY

#define TT_REALS(real, bits)                                                            \
    TT_LANES(real, real##v_add, real, real, x + y)                                      \
    TT_LANES(real, real##v_sub, real, real, x - y)                                      \
    TT_LANES(real, real##v_mul, real, real, x * y)                                      \
    TT_LANES(real, real##v_and, real, real, (bits##r)x & (bits##r)y)                    \
    TT_LANES(real, real##v_or, real, real, (bits##r)x | (bits##r)y)                     \
    TT_LANES(real, real##v_andnot, real, real, ~(bits##r)x & (bits##r)y)                \
    TT_LANES(real, real##v_eq, real, real, x == y)                                      \
    TT_LANES(real, real##v_lt, real, real, x < y)                                       \
    TT_LANES(bits, bits##v_count, bits, real, x - (bits##r)y) /* of the lanes set */    \
    static inline real##v real##v_abs(real##v a) { return real##v_andnot(real##v_set(-0.0f), a); }
TT_REALS(f32, i32)
TT_REALS(f64, i64)
#undef TT_REALS

/* a < b ? a : b and a > b ? a : b, as x86 has them: b where either is NaN, or both are zeros. */
#define TT_PICK(of, condition) ((of)(condition) & (of)x) | (~(of)(condition) & (of)y)
#if defined(__AVX2__)
TT_LANES(f32, f32v_min, f32, f32, _mm256_min_ps(x, y))
TT_LANES(f64, f64v_min, f64, f64, _mm256_min_pd(x, y))
TT_LANES(f32, f32v_max, f32, f32, _mm256_max_ps(x, y))
TT_LANES(f64, f64v_max, f64, f64, _mm256_max_pd(x, y))
#elif defined(__x86_64__)
TT_LANES(f32, f32v_min, f32, f32, _mm_min_ps(x, y))
TT_LANES(f64, f64v_min, f64, f64, _mm_min_pd(x, y))
TT_LANES(f32, f32v_max, f32, f32, _mm_max_ps(x, y))
TT_LANES(f64, f64v_max, f64, f64, _mm_max_pd(x, y))
#else
TT_LANES(f32, f32v_min, f32, f32, TT_PICK(i32r, x < y))
TT_LANES(f64, f64v_min, f64, f64, TT_PICK(i64r, x < y))
TT_LANES(f32, f32v_max, f32, f32, TT_PICK(i32r, x > y))
TT_LANES(f64, f64v_max, f64, f64, TT_PICK(i64r, x > y))
#endif

TT_LANES(f32, f32v_exponent, f32, f32, (u32r)x << 23) /* 2^n from n + 127 in the lowest bits */
TT_LANES(i64, i64v_add, i64, i64, (u64r)x + (u64r)y) /* wraps around */
TT_LANES(i64, i64v_xor, i64, i64, x ^ y)
TT_LANES(f64, i64v_is_zero, i64, i64, x == 0)
#define i64v_upper(a, dropped) i64v_shift(a, i64v_set(dropped))
TT_LANES(i64, i64v_shift, i64, i64, (u64r)x >> (u64r)y) /* as if unsigned */
TT_LANES(f64, f64v_bits, i64, i64, x)
TT_LANES(i64, i64v_bits, f64, f64, x)
#define f64v_of_bits(a) f64v_bits(a, a)
#define i64v_of_bits(a) i64v_bits(a, a)

#if defined(__AVX2__)
TT_LANES(u16, u16v_max_signed, u16, u16, _mm256_max_epi16((__m256i)x, (__m256i)y))
TT_LANES(u16, u16v_max, u16, u16, _mm256_max_epu16((__m256i)x, (__m256i)y))
TT_LANES(u16, u16v_min, u16, u16, _mm256_min_epu16((__m256i)x, (__m256i)y))
#elif defined(__x86_64__) /* SSE2 orders signed numbers only */
TT_LANES(u16, u16v_max_signed, u16, u16, _mm_max_epi16((__m128i)x, (__m128i)y))
TT_LANES(u16, u16v_max, u16, u16, (u16r)_mm_subs_epu16((__m128i)x, (__m128i)y) + y)
TT_LANES(u16, u16v_min, u16, u16, x - (u16r)_mm_subs_epu16((__m128i)x, (__m128i)y))
#else
TT_LANES(u16, u16v_max_signed, u16, u16, TT_PICK(u16r, (i16r)x > (i16r)y))
TT_LANES(u16, u16v_max, u16, u16, TT_PICK(u16r, x > y))
TT_LANES(u16, u16v_min, u16, u16, TT_PICK(u16r, x < y))
#endif
/* Doubling drops the sign: +0 and -0 both become 0. */
TT_LANES(u16, u16v_count_zeros, u16, u16, x - (u16r)(y + y == 0))
/* bf16 is split into even and odd elements, which takes one operation each. */
TT_LANES(f32, u16v_even, u16, u16, (u32r)x << 16)
TT_LANES(f32, u16v_odd, u16, u16, (u32r)x & 0xffff0000u)
#undef TT_PICK
#undef TT_LANES

/* clang-format on */

static inline void u16v_split_bf16(u16v raw, f32v *even, f32v *odd)
{
    *even = u16v_even(raw, raw);
    *odd = u16v_odd(raw, raw);
}

/* f16 is split into the first and the last eight, as the hardware converts them; from memory,
 * because taking a register apart costs an operation more. */
static inline void f32v_load_f16(const uint16_t *x, f32v *first, f32v *last)
{
#if defined(__AVX2__)
    *first = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
    *last = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + 8)));
#elif defined(__aarch64__)
    f32r quarter[4];
    for (size_t i = 0; i < 4; i++)
        quarter[i] = (f32r)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + 4 * i)));
    *first = (f32v){ quarter[0], quarter[1] };
    *last = (f32v){ quarter[2], quarter[3] };
#else
    float wide[16];
    TT_KERNEL(convert_f32)(TT_F16, x, wide, 16);
    *first = f32v_load(wide);
    *last = f32v_load(wide + 8);
#endif
}

#endif
