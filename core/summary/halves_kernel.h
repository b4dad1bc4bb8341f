/* halves_kernel.h -- sixteen 16-bit floats in one virtual vector.
 *
 * For *_kernel.c only; see lanes_kernel.h for the lanes they are split into.
 * bf16 is split into even and odd elements, which takes one operation each;
 * f16 into the first and the last eight, as the hardware converts them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_HALVES_KERNEL_H
#define TT_SUMMARY_HALVES_KERNEL_H

#include "summary/kernels.h"
#include "summary/lanes_kernel.h"

/* A table of operations, a line each. */
/* clang-format off */

#if defined(__AVX2__)
typedef __m256i u16v;

static inline u16v u16v_load(const uint16_t *x) { return _mm256_loadu_si256((const __m256i *)(const void *)x); }
static inline void u16v_store(uint16_t *x, u16v a) { _mm256_storeu_si256((__m256i *)(void *)x, a); }
static inline u16v u16v_zero(void) { return _mm256_setzero_si256(); }
static inline u16v u16v_max_signed(u16v a, u16v b) { return _mm256_max_epi16(a, b); }
static inline u16v u16v_max(u16v a, u16v b) { return _mm256_max_epu16(a, b); }
static inline u16v u16v_min(u16v a, u16v b) { return _mm256_min_epu16(a, b); }
/* Doubling drops the sign: +0 and -0 both become 0. */
static inline u16v u16v_count_zeros(u16v n, u16v a)
{
    return _mm256_sub_epi16(n, _mm256_cmpeq_epi16(_mm256_add_epi16(a, a), _mm256_setzero_si256()));
}
static inline void u16v_split_bf16(u16v raw, f32v *even, f32v *odd)
{
    *even = _mm256_castsi256_ps(_mm256_slli_epi32(raw, 16));
    *odd = _mm256_castsi256_ps(_mm256_and_si256(raw, _mm256_set1_epi32((int)0xffff0000)));
}
/* From memory: taking a register apart costs an operation more. */
static inline void f32v_load_f16(const uint16_t *x, f32v *first, f32v *last)
{
    *first = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x));
    *last = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + 8)));
}

#elif defined(__aarch64__)
typedef struct u16v { uint16x8_t low, high; } u16v;

static inline u16v u16v_load(const uint16_t *x) { return (u16v){ vld1q_u16(x), vld1q_u16(x + 8) }; }
static inline void u16v_store(uint16_t *x, u16v a) { vst1q_u16(x, a.low), vst1q_u16(x + 8, a.high); }
static inline u16v u16v_zero(void) { return (u16v){ vdupq_n_u16(0), vdupq_n_u16(0) }; }
static inline uint16x8_t u16h_max_signed(uint16x8_t a, uint16x8_t b)
{
    return vreinterpretq_u16_s16(vmaxq_s16(vreinterpretq_s16_u16(a), vreinterpretq_s16_u16(b)));
}
static inline u16v u16v_max_signed(u16v a, u16v b)
{
    return (u16v){ u16h_max_signed(a.low, b.low), u16h_max_signed(a.high, b.high) };
}
static inline u16v u16v_max(u16v a, u16v b) { return (u16v){ vmaxq_u16(a.low, b.low), vmaxq_u16(a.high, b.high) }; }
static inline u16v u16v_min(u16v a, u16v b) { return (u16v){ vminq_u16(a.low, b.low), vminq_u16(a.high, b.high) }; }
static inline uint16x8_t u16h_count_zeros(uint16x8_t n, uint16x8_t a)
{
    return vsubq_u16(n, vceqq_u16(vaddq_u16(a, a), vdupq_n_u16(0)));
}
static inline u16v u16v_count_zeros(u16v n, u16v a)
{
    return (u16v){ u16h_count_zeros(n.low, a.low), u16h_count_zeros(n.high, a.high) };
}
static inline void u16v_split_bf16(u16v raw, f32v *even, f32v *odd)
{
    uint32x4_t low = vreinterpretq_u32_u16(raw.low), high = vreinterpretq_u32_u16(raw.high);
    uint32x4_t mask = vdupq_n_u32(0xffff0000u);
    *even = (f32v){ TT_FLOAT32(vshlq_n_u32(low, 16)), TT_FLOAT32(vshlq_n_u32(high, 16)) };
    *odd = (f32v){ TT_FLOAT32(vandq_u32(low, mask)), TT_FLOAT32(vandq_u32(high, mask)) };
}
static inline f32v u16h_to_f32(uint16x8_t a)
{
    float16x8_t half = vreinterpretq_f16_u16(a);
    return (f32v){ vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half) };
}
static inline void f32v_load_f16(const uint16_t *x, f32v *first, f32v *last)
{
    *first = u16h_to_f32(vld1q_u16(x));
    *last = u16h_to_f32(vld1q_u16(x + 8));
}

#else
typedef struct u16v { __m128i low, high; } u16v;

static inline __m128i u16h_load(const uint16_t *x) { return _mm_loadu_si128((const __m128i *)(const void *)x); }
static inline u16v u16v_load(const uint16_t *x) { return (u16v){ u16h_load(x), u16h_load(x + 8) }; }
static inline void u16v_store(uint16_t *x, u16v a)
{
    _mm_storeu_si128((__m128i *)(void *)x, a.low);
    _mm_storeu_si128((__m128i *)(void *)(x + 8), a.high);
}
static inline u16v u16v_zero(void) { return (u16v){ _mm_setzero_si128(), _mm_setzero_si128() }; }
static inline u16v u16v_max_signed(u16v a, u16v b)
{
    return (u16v){ _mm_max_epi16(a.low, b.low), _mm_max_epi16(a.high, b.high) };
}
/* SSE2 orders 16-bit numbers as signed only. */
static inline __m128i u16h_flip(__m128i a) { return _mm_xor_si128(a, _mm_set1_epi16(INT16_MIN)); }
static inline __m128i u16h_max(__m128i a, __m128i b) { return u16h_flip(_mm_max_epi16(u16h_flip(a), u16h_flip(b))); }
static inline __m128i u16h_min(__m128i a, __m128i b) { return u16h_flip(_mm_min_epi16(u16h_flip(a), u16h_flip(b))); }
static inline u16v u16v_max(u16v a, u16v b) { return (u16v){ u16h_max(a.low, b.low), u16h_max(a.high, b.high) }; }
static inline u16v u16v_min(u16v a, u16v b) { return (u16v){ u16h_min(a.low, b.low), u16h_min(a.high, b.high) }; }
static inline __m128i u16h_count_zeros(__m128i n, __m128i a)
{
    return _mm_sub_epi16(n, _mm_cmpeq_epi16(_mm_add_epi16(a, a), _mm_setzero_si128()));
}
static inline u16v u16v_count_zeros(u16v n, u16v a)
{
    return (u16v){ u16h_count_zeros(n.low, a.low), u16h_count_zeros(n.high, a.high) };
}
static inline __m128 u16h_even(__m128i raw) { return _mm_castsi128_ps(_mm_slli_epi32(raw, 16)); }
static inline __m128 u16h_odd(__m128i raw)
{
    return _mm_castsi128_ps(_mm_and_si128(raw, _mm_set1_epi32((int)0xffff0000)));
}
static inline void u16v_split_bf16(u16v raw, f32v *even, f32v *odd)
{
    *even = (f32v){ u16h_even(raw.low), u16h_even(raw.high) };
    *odd = (f32v){ u16h_odd(raw.low), u16h_odd(raw.high) };
}
static inline void f32v_load_f16(const uint16_t *x, f32v *first, f32v *last)
{
    float wide[16];
    TT_KERNEL(convert_f32)(TT_F16, x, wide, 16);
    *first = f32v_load(wide);
    *last = f32v_load(wide + 8);
}
#endif
#endif
