/* compare_kernel.c -- compares blocks of f32, of f64, and of narrow floats' bits.
 *
 * Maxima and counts do not depend on the order, so each instruction set may use the vectors it
 * has and still give the same bits.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/ahead_kernel.h"
#include "summary/compare.h"
#include "tensor/walk.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Where a distance is counted: 0, or FIRST_PLACE + its place in ulp_hist.  A
 * float's exponent is the place; the second highest bit is cleared so that
 * rounding cannot reach the next power of two. */
enum { FIRST_PLACE_f32 = 126, PLACES_f32 = FIRST_PLACE_f32 + 33 };

static inline uint32_t ulp_place_f32(uint32_t ulps)
{
    float x = (float)(ulps & ~(ulps >> 1));
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 23;
}

enum { FIRST_PLACE_f64 = 0, PLACES_f64 = TT_ULP_NAN };

static inline uint64_t ulp_place_f64(uint64_t ulps)
{
    return (uint64_t)tt_ulp_bin(ulps);
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

void TT_KERNEL(compare_narrow)(tt_dtype dtype, const void *a, const void *b, size_t n,
                               tt_compare_state *state)
{
    narrow type = narrow_of(dtype);
    bool is_wide = type.sign == 0x8000;
    for (size_t i = 0; i < n; i++) {
        uint32_t x = is_wide ? ((const uint16_t *)a)[i] : ((const uint8_t *)a)[i];
        uint32_t y = is_wide ? ((const uint16_t *)b)[i] : ((const uint8_t *)b)[i];
        uint32_t nans = is_nan(type, x) + is_nan(type, y);
        if (nans == 0)
            tt_compare_add_ulps(state, tt_ulps_between(x, y, type.sign));
        else if (state->ulp_hist != NULL)
            state->ulp_hist[nans == 2 && state->equal_nan ? 0 : TT_ULP_NAN]++;
    }
}
