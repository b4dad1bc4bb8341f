/* compare_kernel.c -- compares blocks of f32, of f64, and of narrow floats' bits.
 *
 * Whole vectors are written with the compilers' vector extension; intrinsics
 * only where it has no word: the larger of two, and "is any bit set".  Maxima
 * and counts do not depend on the order, so each instruction set may use the
 * vectors it has and still give the same bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/compare.h"

#include "tensor/walk.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define PREFETCH(at) __builtin_prefetch((const char *)(at) + 2048)

#if defined(__AVX2__)
#include <immintrin.h>

#define VECTOR 32
typedef int32_t ints __attribute__((vector_size(VECTOR)));
typedef uint32_t uints __attribute__((vector_size(VECTOR)));
typedef int64_t longs __attribute__((vector_size(VECTOR)));
typedef uint64_t ulongs __attribute__((vector_size(VECTOR)));

static inline ints larger_f32(ints a, ints b)
{
    return (ints)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline ints smaller_f32(ints a, ints b)
{
    return (ints)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

static inline uints ularger_f32(uints a, uints b)
{
    return (uints)_mm256_max_epu32((__m256i)a, (__m256i)b);
}

static inline bool is_any_f32(ints x)
{
    return !_mm256_testz_si256((__m256i)x, (__m256i)x);
}

static inline longs larger_f64(longs a, longs b)
{
    return (longs)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)(a > b));
}

static inline longs smaller_f64(longs a, longs b)
{
    return (longs)_mm256_blendv_epi8((__m256i)a, (__m256i)b, (__m256i)(a > b));
}

static inline ulongs ularger_f64(ulongs a, ulongs b)
{
    const uint64_t top = (uint64_t)1 << 63; /* AVX2 compares signed only */
    __m256i is_more = (__m256i)((longs)(a ^ top) > (longs)(b ^ top));
    return (ulongs)_mm256_blendv_epi8((__m256i)b, (__m256i)a, is_more);
}

static inline bool is_any_f64(longs x)
{
    return !_mm256_testz_si256((__m256i)x, (__m256i)x);
}

#else
#define VECTOR 16
typedef int32_t ints __attribute__((vector_size(VECTOR)));
typedef uint32_t uints __attribute__((vector_size(VECTOR)));
typedef int64_t longs __attribute__((vector_size(VECTOR)));
typedef uint64_t ulongs __attribute__((vector_size(VECTOR)));

#define PICK(type, name, op)                \
    static inline type name(type a, type b) \
    {                                       \
        type first = (type)(a op b);        \
        return (a & first) | (b & ~first);  \
    }
PICK(ints, larger_f32, >)
PICK(ints, smaller_f32, <)
PICK(uints, ularger_f32, >)
PICK(longs, larger_f64, >)
PICK(longs, smaller_f64, <)
PICK(ulongs, ularger_f64, >)
#undef PICK

static inline bool is_any_f64(longs x)
{
    return (x[0] | x[1]) != 0;
}

static inline bool is_any_f32(ints x)
{
    return is_any_f64((longs)x);
}
#endif

/* Where a distance is counted: 0, or FIRST_PLACE + its place in ulp_hist.  A
 * float's exponent is the place; the second highest bit is cleared so that
 * rounding cannot reach the next power of two. */
typedef float floats __attribute__((vector_size(VECTOR)));
enum { FIRST_PLACE_f32 = 126, PLACES_f32 = FIRST_PLACE_f32 + 33 };

static inline uints ulp_places_f32(uints ulps)
{
    return (uints) __builtin_convertvector(ulps & ~(ulps >> 1), floats) >> 23;
}

enum { FIRST_PLACE_f64 = 0, PLACES_f64 = TT_ULP_NAN };

static inline ulongs ulp_places_f64(ulongs ulps)
{
    for (size_t i = 0; i < VECTOR / sizeof(uint64_t); i++)
        ulps[i] = (uint64_t)tt_ulp_bin(ulps[i]);
    return ulps;
}

#define REAL float
#define BITS int32_t
#define UBITS uint32_t
#define REAL_MAX FLT_MAX
#define INFINITE 0x7f800000
#define NAME(x) x##_f32
#include "summary/compare_real_kernel.h"

#define REAL double
#define BITS int64_t
#define UBITS uint64_t
#define REAL_MAX DBL_MAX
#define INFINITE 0x7ff0000000000000
#define NAME(x) x##_f64
#include "summary/compare_real_kernel.h"

/* Narrow floats (bf16 is the upper half of an f32 and needs no own code): the
 * distance is that of their own bit patterns. */
typedef struct narrow {
    uint32_t sign;    /* the sign bit */
    uint32_t largest; /* magnitude above which there is only NaN */
    uint32_t nan;     /* one more NaN; all ones: none */
} narrow;

static narrow narrow_of(tt_dtype dtype)
{
    switch (dtype) {
    case TT_F16:
        return (narrow){ 0x8000, 0x7c00, UINT32_MAX };
    case TT_F8_E4M3FN:
        return (narrow){ 0x80, 0x7e, UINT32_MAX };
    case TT_F8_E5M2:
        return (narrow){ 0x80, 0x7c, UINT32_MAX };
    case TT_F8_E4M3FNUZ:
    case TT_F8_E5M2FNUZ:
        return (narrow){ 0x80, 0x7f, 0x80 };
    default:
        assert(false);
        return (narrow){ 0 };
    }
}

static inline uint32_t is_nan(narrow type, uint32_t bits)
{
    return (uint32_t)((bits & (type.sign - 1)) > type.largest) | (uint32_t)(bits == type.nan);
}

static inline int32_t rank(narrow type, uint32_t bits)
{
    int32_t magnitude = (int32_t)(bits & (type.sign - 1));
    return (bits & type.sign) != 0 ? -magnitude : magnitude;
}

static inline uint32_t distance(narrow type, uint32_t a, uint32_t b)
{
    int32_t gap = rank(type, a) - rank(type, b);
    return (uint32_t)(gap < 0 ? -gap : gap);
}

#define WIDEST(name, element)                                                       \
    static uint32_t name(narrow type, const element *a, const element *b, size_t n) \
    {                                                                               \
        uint32_t most = 0;                                                          \
        for (size_t i = 0; i < n; i++) {                                            \
            uint32_t nan = is_nan(type, a[i]) | is_nan(type, b[i]);                 \
            uint32_t ulps = distance(type, a[i], b[i]) & (nan - 1);                 \
            most = ulps > most ? ulps : most;                                       \
        }                                                                           \
        return most;                                                                \
    }
WIDEST(widest_f16, uint16_t)
WIDEST(widest_f8, uint8_t)
#undef WIDEST

void TT_KERNEL(compare_narrow)(tt_dtype dtype, const void *a, const void *b, size_t n,
                               tt_compare_state *state)
{
    narrow type = narrow_of(dtype);
    bool is_wide = type.sign == 0x8000;
    uint32_t most = is_wide ? widest_f16(type, a, b, n) : widest_f8(type, a, b, n);
    state->ulp_max = most > state->ulp_max ? most : state->ulp_max;
    for (size_t i = 0; state->ulp_hist != NULL && i < n; i++) {
        uint32_t x = is_wide ? ((const uint16_t *)a)[i] : ((const uint8_t *)a)[i];
        uint32_t y = is_wide ? ((const uint16_t *)b)[i] : ((const uint8_t *)b)[i];
        uint32_t nans = is_nan(type, x) + is_nan(type, y);
        if (nans > 0)
            state->ulp_hist[nans == 2 && state->equal_nan ? 0 : TT_ULP_NAN]++;
        else
            state->ulp_hist[tt_ulp_bin(distance(type, x, y))]++;
    }
}
