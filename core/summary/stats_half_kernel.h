/* stats_half_kernel.h -- the finite loop for 16-bit floats.
 *
 * Included by stats_kernel.c for bf16 and for f16, after stats_block_kernel.h
 * for f32, with
 *   SPLIT(x, raw, a, b)   the sixteen elements at x, loaded as raw, as two vectors of f32
 *   DTYPE                 their type
 *   HALF(f)               this inclusion's name of a function
 *
 * Half the bytes for each element leave half the time, so this loop saves where
 * it can: min, max and zeros are found sixteen at a time in the bits, which
 * order like the numbers within one sign; two elements are added to each other
 * before they are added to the sum.
 * SPDX-License-Identifier: Apache-2.0 */

enum { HALF(STEP) = 16, HALF(INNER) = 16 * 16 };

/* The mean of the first 32 elements. */
static float HALF(choose_pivot)(const uint16_t *x)
{
    f32v a, b, c, d;
    u16v raw = u16v_load(x), more = u16v_load(x + HALF(STEP));
    SPLIT(x, raw, a, b);
    SPLIT(x + HALF(STEP), more, c, d);
    (void)raw, (void)more;
    float lane[8];
    f32v_store(lane, f32v_add(f32v_add(a, b), f32v_add(c, d)));
    for (size_t width = 4; width > 0; width /= 2)
        for (size_t i = 0; i < width; i++)
            lane[i] += lane[i + width];
    return lane[0] * (1.0f / 32);
}

/* Among numbers of one sign the larger bits are further from zero. */
static void HALF(set_extremes)(f32_sums *s, u16v most, u16v furthest, u16v nearest)
{
    uint16_t bits[3][HALF(STEP)];
    u16v_store(bits[0], most);
    u16v_store(bits[1], furthest);
    u16v_store(bits[2], nearest);
    for (size_t i = 1; i < HALF(STEP); i++) {
        if ((int16_t)bits[0][i] > (int16_t)bits[0][0])
            bits[0][0] = bits[0][i];
        if (bits[1][i] > bits[1][0])
            bits[1][0] = bits[1][i];
        if (bits[2][i] < bits[2][0])
            bits[2][0] = bits[2][i];
    }
    bool has_negative = bits[1][0] >= 0x8000, has_positive = bits[2][0] < 0x8000;
    uint16_t ends[2] = { has_negative ? bits[1][0] : bits[2][0], has_positive ? bits[0][0] : bits[2][0] };
    float value[2];
    TT_KERNEL(convert_f32)(DTYPE, ends, value, 2);
    for (size_t i = 0; i < 8; i++) {
        s->low[i] = value[0];
        s->high[i] = value[1];
    }
}

static void HALF(add)(f32_sums *s, const uint16_t *x, size_t n)
{
    f32v pivot = f32v_set(s->pivot), nothing = f32v_set(0);
    f32v sum = nothing, square = nothing, magnitude = nothing;
    u16v most = u16v_load(x), furthest = most, nearest = most, zeros = u16v_set(0);
    size_t whole = n - n % HALF(STEP);
    for (size_t at = 0; at < whole;) {
        size_t stop = whole - at < HALF(INNER) ? whole : at + HALF(INNER);
        f32v sum_in = nothing, square_in = nothing, magnitude_in = nothing;
        tt_ahead_page(x + at);
        for (; at < stop; at += HALF(STEP)) {
            tt_ahead_line(x + at);
            u16v raw = u16v_load(x + at);
            most = u16v_max_signed(raw, most);
            furthest = u16v_max(raw, furthest);
            nearest = u16v_min(raw, nearest);
            zeros = u16v_count_zeros(zeros, raw);
            f32v a, b;
            SPLIT(x + at, raw, a, b);
            magnitude_in = f32v_add(magnitude_in, f32v_add(f32v_abs(a), f32v_abs(b)));
            a = f32v_sub(a, pivot);
            b = f32v_sub(b, pivot);
            sum_in = f32v_add(sum_in, f32v_add(a, b));
            square_in = f32v_add(square_in, f32v_add(f32v_mul(a, a), f32v_mul(b, b)));
        }
        sum = f32v_add(sum, sum_in);
        square = f32v_add(square, square_in);
        magnitude = f32v_add(magnitude, magnitude_in);
    }
    f32v_store(s->sum, sum);
    f32v_store(s->square, square);
    f32v_store(s->magnitude, magnitude);
    HALF(set_extremes)(s, most, furthest, nearest);
    uint16_t count[HALF(STEP)];
    u16v_store(count, zeros);
    for (size_t i = 0; i < 8; i++) {
        s->zeros[i] = count[i] + count[i + 8];
        s->finite[i] = (int32_t)(whole / 8);
        s->posinf[i] = s->neginf[i] = 0;
    }
    float rest[HALF(STEP)];
    size_t left = n - whole;
    TT_KERNEL(convert_f32)(DTYPE, x + whole, rest, left);
    f32_add_tail(s, rest, left < 8 ? left : 8, false);
    if (left > 8)
        f32_add_tail(s, rest + 8, left - 8, false);
}

#undef SPLIT
#undef DTYPE
#undef HALF
