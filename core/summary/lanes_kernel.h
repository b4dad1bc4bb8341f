/* lanes_kernel.h -- eight virtual f32 lanes and four virtual f64 lanes.
 *
 * For *_kernel.c only.  AVX2 holds them in one register, SSE2 and NEON in two;
 * an operation does the same to each lane everywhere, so that sums come out
 * the same bit for bit.  Masks are lanes of all ones or all zeros.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_LANES_KERNEL_H
#define TT_SUMMARY_LANES_KERNEL_H

#include <stdint.h>
#include <string.h>

/* A table of operations, a line each. */
/* clang-format off */

#if defined(__AVX2__)
#include <immintrin.h>

typedef __m256 f32v;
typedef __m256d f64v;
typedef __m256i i32v; /* eight counters */
typedef __m256i i64v; /* four counters */

#define TT_LANES_OP2(name, ps, pd)                                          \
    static inline f32v f32v_##name(f32v a, f32v b) { return ps(a, b); }     \
    static inline f64v f64v_##name(f64v a, f64v b) { return pd(a, b); }
TT_LANES_OP2(add, _mm256_add_ps, _mm256_add_pd)
TT_LANES_OP2(sub, _mm256_sub_ps, _mm256_sub_pd)
TT_LANES_OP2(mul, _mm256_mul_ps, _mm256_mul_pd)
TT_LANES_OP2(and, _mm256_and_ps, _mm256_and_pd)
TT_LANES_OP2(or, _mm256_or_ps, _mm256_or_pd)
TT_LANES_OP2(andnot, _mm256_andnot_ps, _mm256_andnot_pd) /* ~a & b */
TT_LANES_OP2(min, _mm256_min_ps, _mm256_min_pd)          /* a < b ? a : b */
TT_LANES_OP2(max, _mm256_max_ps, _mm256_max_pd)          /* a > b ? a : b */

static inline f32v f32v_load(const float *x) { return _mm256_loadu_ps(x); }
static inline f64v f64v_load(const double *x) { return _mm256_loadu_pd(x); }
static inline void f32v_store(float *x, f32v a) { _mm256_storeu_ps(x, a); }
static inline void f64v_store(double *x, f64v a) { _mm256_storeu_pd(x, a); }
static inline f32v f32v_set(float x) { return _mm256_set1_ps(x); }
static inline f64v f64v_set(double x) { return _mm256_set1_pd(x); }
static inline f32v f32v_eq(f32v a, f32v b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
static inline f64v f64v_eq(f64v a, f64v b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
static inline f32v f32v_lt(f32v a, f32v b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
static inline f64v f64v_lt(f64v a, f64v b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
static inline i32v i32v_zero(void) { return _mm256_setzero_si256(); }
static inline i64v i64v_zero(void) { return _mm256_setzero_si256(); }
static inline i32v i32v_count(i32v n, f32v mask)
{
    return _mm256_sub_epi32(n, _mm256_castps_si256(mask));
}
static inline i64v i64v_count(i64v n, f64v mask)
{
    return _mm256_sub_epi64(n, _mm256_castpd_si256(mask));
}
static inline void i32v_store(int32_t *x, i32v a) { _mm256_storeu_si256((__m256i *)(void *)x, a); }
static inline void i64v_store(int64_t *x, i64v a) { _mm256_storeu_si256((__m256i *)(void *)x, a); }
static inline i64v i64v_load(const int64_t *x) { return _mm256_loadu_si256((const __m256i *)(const void *)x); }
static inline i64v i64v_set(int64_t x) { return _mm256_set1_epi64x(x); }
#define i64v_upper(a, dropped) _mm256_srli_epi64(a, dropped) /* as if unsigned */
static inline i64v i64v_add(i64v a, i64v b) { return _mm256_add_epi64(a, b); }
static inline i64v i64v_xor(i64v a, i64v b) { return _mm256_xor_si256(a, b); }
static inline i64v i64v_count_equal(i64v n, i64v a, i64v b)
{
    return _mm256_sub_epi64(n, _mm256_cmpeq_epi64(a, b));
}
static inline f64v f64v_of_bits(i64v a) { return _mm256_castsi256_pd(a); }
static inline i64v i64v_of_bits(f64v a) { return _mm256_castpd_si256(a); }

#else /* two halves of 128 bits */

#if defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t f32h;
typedef float64x2_t f64h;
typedef int32x4_t i32h;
typedef int64x2_t i64h;
#define TT_BITS32(a) vreinterpretq_u32_f32(a)
#define TT_BITS64(a) vreinterpretq_u64_f64(a)
#define TT_FLOAT32(a) vreinterpretq_f32_u32(a)
#define TT_FLOAT64(a) vreinterpretq_f64_u64(a)
static inline f32h f32h_and(f32h a, f32h b) { return TT_FLOAT32(vandq_u32(TT_BITS32(a), TT_BITS32(b))); }
static inline f64h f64h_and(f64h a, f64h b) { return TT_FLOAT64(vandq_u64(TT_BITS64(a), TT_BITS64(b))); }
static inline f32h f32h_or(f32h a, f32h b) { return TT_FLOAT32(vorrq_u32(TT_BITS32(a), TT_BITS32(b))); }
static inline f64h f64h_or(f64h a, f64h b) { return TT_FLOAT64(vorrq_u64(TT_BITS64(a), TT_BITS64(b))); }
static inline f32h f32h_andnot(f32h a, f32h b) { return TT_FLOAT32(vbicq_u32(TT_BITS32(b), TT_BITS32(a))); }
static inline f64h f64h_andnot(f64h a, f64h b) { return TT_FLOAT64(vbicq_u64(TT_BITS64(b), TT_BITS64(a))); }
static inline f32h f32h_eq(f32h a, f32h b) { return TT_FLOAT32(vceqq_f32(a, b)); }
static inline f64h f64h_eq(f64h a, f64h b) { return TT_FLOAT64(vceqq_f64(a, b)); }
static inline f32h f32h_lt(f32h a, f32h b) { return TT_FLOAT32(vcltq_f32(a, b)); }
static inline f64h f64h_lt(f64h a, f64h b) { return TT_FLOAT64(vcltq_f64(a, b)); }
/* Not vminq: that orders zeros and keeps NaN, which SSE and AVX do not. */
static inline f32h f32h_min(f32h a, f32h b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline f64h f64h_min(f64h a, f64h b) { return vbslq_f64(vcltq_f64(a, b), a, b); }
static inline f32h f32h_max(f32h a, f32h b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline f64h f64h_max(f64h a, f64h b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
static inline i32h i32h_count(i32h n, f32h mask) { return vsubq_s32(n, vreinterpretq_s32_f32(mask)); }
static inline i64h i64h_count(i64h n, f64h mask) { return vsubq_s64(n, vreinterpretq_s64_f64(mask)); }
#define i64h_upper(a, dropped) vreinterpretq_s64_u64(vshrq_n_u64(vreinterpretq_u64_s64(a), dropped))
static inline i64h i64h_count_equal(i64h n, i64h a, i64h b)
{
    return vsubq_s64(n, vreinterpretq_s64_u64(vceqq_s64(a, b)));
}
#define i64h_load vld1q_s64
#define i64h_set vdupq_n_s64
#define i64h_add vaddq_s64
#define i64h_xor veorq_s64
#define f64h_of_bits vreinterpretq_f64_s64
#define i64h_of_bits vreinterpretq_s64_f64
#define f32h_add vaddq_f32
#define f64h_add vaddq_f64
#define f32h_sub vsubq_f32
#define f64h_sub vsubq_f64
#define f32h_mul vmulq_f32
#define f64h_mul vmulq_f64
#define f32h_load vld1q_f32
#define f64h_load vld1q_f64
#define f32h_store vst1q_f32
#define f64h_store vst1q_f64
#define f32h_set vdupq_n_f32
#define f64h_set vdupq_n_f64
#define i32h_store vst1q_s32
#define i64h_store vst1q_s64
#define i32h_zero() vdupq_n_s32(0)
#define i64h_zero() vdupq_n_s64(0)
#else
#include <emmintrin.h>
typedef __m128 f32h;
typedef __m128d f64h;
typedef __m128i i32h;
typedef __m128i i64h;
#define f32h_add _mm_add_ps
#define f64h_add _mm_add_pd
#define f32h_sub _mm_sub_ps
#define f64h_sub _mm_sub_pd
#define f32h_mul _mm_mul_ps
#define f64h_mul _mm_mul_pd
#define f32h_and _mm_and_ps
#define f64h_and _mm_and_pd
#define f32h_or _mm_or_ps
#define f64h_or _mm_or_pd
#define f32h_andnot _mm_andnot_ps
#define f64h_andnot _mm_andnot_pd
#define f32h_min _mm_min_ps
#define f64h_min _mm_min_pd
#define f32h_max _mm_max_ps
#define f64h_max _mm_max_pd
#define f32h_eq _mm_cmpeq_ps
#define f64h_eq _mm_cmpeq_pd
#define f32h_lt _mm_cmplt_ps
#define f64h_lt _mm_cmplt_pd
#define f32h_load _mm_loadu_ps
#define f64h_load _mm_loadu_pd
#define f32h_store _mm_storeu_ps
#define f64h_store _mm_storeu_pd
#define f32h_set _mm_set1_ps
#define f64h_set _mm_set1_pd
#define i32h_zero() _mm_setzero_si128()
#define i64h_zero() _mm_setzero_si128()
#define i64h_set _mm_set1_epi64x
#define i64h_add _mm_add_epi64
#define i64h_xor _mm_xor_si128
#define i64h_upper(a, dropped) _mm_srli_epi64(a, dropped)
#define f64h_of_bits _mm_castsi128_pd
#define i64h_of_bits _mm_castpd_si128
static inline i64h i64h_load(const int64_t *x) { return _mm_loadu_si128((const __m128i *)(const void *)x); }
static inline i64h i64h_count_equal(i64h n, i64h a, i64h b)
{
    i64h half = _mm_cmpeq_epi32(a, b);
    return _mm_sub_epi64(n, _mm_and_si128(half, _mm_shuffle_epi32(half, 0xb1)));
}
static inline i32h i32h_count(i32h n, f32h mask) { return _mm_sub_epi32(n, _mm_castps_si128(mask)); }
static inline i64h i64h_count(i64h n, f64h mask) { return _mm_sub_epi64(n, _mm_castpd_si128(mask)); }
static inline void i32h_store(int32_t *x, i32h a) { _mm_storeu_si128((__m128i *)(void *)x, a); }
static inline void i64h_store(int64_t *x, i64h a) { _mm_storeu_si128((__m128i *)(void *)x, a); }
#endif

typedef struct f32v { f32h low, high; } f32v;
typedef struct f64v { f64h low, high; } f64v;
typedef struct i32v { i32h low, high; } i32v;
typedef struct i64v { i64h low, high; } i64v;

#define TT_LANES_OP2(name)                                                                      \
    static inline f32v f32v_##name(f32v a, f32v b)                                              \
    {                                                                                           \
        return (f32v){ f32h_##name(a.low, b.low), f32h_##name(a.high, b.high) };                \
    }                                                                                           \
    static inline f64v f64v_##name(f64v a, f64v b)                                              \
    {                                                                                           \
        return (f64v){ f64h_##name(a.low, b.low), f64h_##name(a.high, b.high) };                \
    }
TT_LANES_OP2(add)
TT_LANES_OP2(sub)
TT_LANES_OP2(mul)
TT_LANES_OP2(and)
TT_LANES_OP2(or)
TT_LANES_OP2(andnot) /* ~a & b */
TT_LANES_OP2(min)    /* a < b ? a : b */
TT_LANES_OP2(max)    /* a > b ? a : b */
TT_LANES_OP2(eq)
TT_LANES_OP2(lt)

static inline f32v f32v_load(const float *x) { return (f32v){ f32h_load(x), f32h_load(x + 4) }; }
static inline f64v f64v_load(const double *x) { return (f64v){ f64h_load(x), f64h_load(x + 2) }; }
static inline i64v i64v_load(const int64_t *x) { return (i64v){ i64h_load(x), i64h_load(x + 2) }; }
static inline void f32v_store(float *x, f32v a) { f32h_store(x, a.low), f32h_store(x + 4, a.high); }
static inline void f64v_store(double *x, f64v a) { f64h_store(x, a.low), f64h_store(x + 2, a.high); }
static inline f32v f32v_set(float x) { return (f32v){ f32h_set(x), f32h_set(x) }; }
static inline f64v f64v_set(double x) { return (f64v){ f64h_set(x), f64h_set(x) }; }
static inline i32v i32v_zero(void) { return (i32v){ i32h_zero(), i32h_zero() }; }
static inline i64v i64v_zero(void) { return (i64v){ i64h_zero(), i64h_zero() }; }
static inline i32v i32v_count(i32v n, f32v mask)
{
    return (i32v){ i32h_count(n.low, mask.low), i32h_count(n.high, mask.high) };
}
static inline i64v i64v_count(i64v n, f64v mask)
{
    return (i64v){ i64h_count(n.low, mask.low), i64h_count(n.high, mask.high) };
}
static inline void i32v_store(int32_t *x, i32v a) { i32h_store(x, a.low), i32h_store(x + 4, a.high); }
static inline void i64v_store(int64_t *x, i64v a) { i64h_store(x, a.low), i64h_store(x + 2, a.high); }
static inline i64v i64v_set(int64_t x) { return (i64v){ i64h_set(x), i64h_set(x) }; }
#define i64v_upper(a, dropped) ((i64v){ i64h_upper((a).low, dropped), i64h_upper((a).high, dropped) })
static inline f64v f64v_of_bits(i64v a) { return (f64v){ f64h_of_bits(a.low), f64h_of_bits(a.high) }; }
static inline i64v i64v_of_bits(f64v a) { return (i64v){ i64h_of_bits(a.low), i64h_of_bits(a.high) }; }
#define TT_LANES_INTEGER_OP2(name)                                               \
    static inline i64v i64v_##name(i64v a, i64v b)                               \
    {                                                                            \
        return (i64v){ i64h_##name(a.low, b.low), i64h_##name(a.high, b.high) }; \
    }
TT_LANES_INTEGER_OP2(add)
TT_LANES_INTEGER_OP2(xor)
static inline i64v i64v_count_equal(i64v n, i64v a, i64v b)
{
    return (i64v){ i64h_count_equal(n.low, a.low, b.low), i64h_count_equal(n.high, a.high, b.high) };
}
#undef TT_LANES_INTEGER_OP2
#endif

#undef TT_LANES_OP2

static inline f32v f32v_abs(f32v a)
{
    uint32_t bits = 0x7fffffffu;
    float mask;
    memcpy(&mask, &bits, sizeof mask);
    return f32v_and(a, f32v_set(mask));
}

static inline f64v f64v_abs(f64v a)
{
    uint64_t bits = 0x7fffffffffffffffu;
    double mask;
    memcpy(&mask, &bits, sizeof mask);
    return f64v_and(a, f64v_set(mask));
}

#endif
