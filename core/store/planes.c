/* planes.c -- a column of numbers that a guess or few different bytes make shorter.
 *
 * Exists because statistics say much twice: the mean is the sum over the count, the largest magnitude is
 * that of the least or the largest element, and m2 follows from the sums but for the last bits.  Nothing is
 * lost: the difference from the guess is stored, as an integer, and is 0 or small.  A wrong guess, as of a
 * file from elsewhere, costs bytes and no more.
 *
 * In chunks of many points, planes that hold few different bytes (exponents, the upper bytes of times) take
 * a few bits for each.  A general compressor gains some bytes more, and takes ten times as long.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/planes.h"

#include "base/float_mode.h"

#include <math.h>
#include <stdlib.h>

enum { PLANES_FROM = 128 }; /* points; below it planes are not worth their heads */

/* ---- guesses ----------------------------------------------------------------- */

#define X(name) [TT_GUESS_##name] = TT_COLUMN_##name,
const tt_column tt_guess_columns[TT_GUESS_COUNT_] = { TT_GUESS_MAP(X) };
#undef X

#define BASE(name) (1u << TT_GUESS_##name)
enum { FINITE = BASE(COUNT) | BASE(NAN) | BASE(POSINF) | BASE(NEGINF) };

unsigned tt_guess_bases(tt_column column)
{
    return column == TT_COLUMN_ABSMAX ? BASE(MIN) | BASE(MAX)
           : column == TT_COLUMN_MEAN ? FINITE | BASE(SUM)
           : column == TT_COLUMN_M2   ? FINITE | BASE(SUM) | BASE(SUMSQ)
           : column == TT_COLUMN_L1   ? BASE(MIN) | BASE(SUM)
                                      : 0;
}

void tt_guess(tt_column column, const uint64_t *const bases[TT_GUESS_COUNT_], uint32_t n, uint64_t *out)
{
#define AT(name) tt_f64_of(bases[TT_GUESS_##name][i])
#define COUNT(name) tt_count_of(bases[TT_GUESS_##name][i])
    uint64_t mode = tt_float_mode_begin();
    for (uint32_t i = 0; i < n; i++) {
        double guess;
        if (column == TT_COLUMN_ABSMAX) {
            double least = fabs(AT(MIN)), most = fabs(AT(MAX));
            guess = least > most || most != most ? least : most;
        } else if (column == TT_COLUMN_L1) {
            guess = AT(MIN) >= 0 ? AT(SUM) : 0;
        } else {
            double finite = (double)(COUNT(COUNT) - COUNT(NAN) - COUNT(POSINF) - COUNT(NEGINF));
            double mean = AT(SUM) / finite;
            guess = column == TT_COLUMN_MEAN ? mean : AT(SUMSQ) - mean * AT(SUM);
        }
        out[i] = guess == guess ? tt_bits_of(guess) : 0; /* the bits of a NaN depend on the machine */
    }
    tt_float_mode_end(mode);
#undef AT
#undef COUNT
}

/* ---- words ------------------------------------------------------------------- */

/* The first byte of the data. */
enum {
    FROM_NOTHING = 0, /* what was taken away from an entry */
    FROM_BEFORE = 1,  /* the one before it; from the first one 0 */
    FROM_GUESS = 2,
    FROM_MASK = 3,
    IS_NARROW = 4, /* the words are the bits of f32, and have 4 bytes */
    IS_PLANES = 8, /* else varints; if there are none, all are 0 */
    FORM_END = 16,
};
enum { BITS_MAX = 6 }; /* with which few bytes are told apart; else a plane stays as it is */

static bool fits_f32(uint64_t bits)
{
    double x = tt_f64_of(bits);
    if (x == x && (x > 3.4e38 || x < -3.4e38) && x - x == 0)
        return false; /* finite, but beyond f32: the conversion is not defined */
    return tt_bits_of((double)(float)x) == bits;
}

static uint64_t narrow(uint64_t bits)
{
    float x = (float)tt_f64_of(bits);
    uint32_t out;
    memcpy(&out, &x, sizeof out);
    return out;
}

static uint64_t widen(uint64_t word)
{
    uint32_t bits = (uint32_t)word;
    float x;
    memcpy(&x, &bits, sizeof x);
    return tt_bits_of((double)x);
}

static size_t varint_len(uint64_t x)
{
    return x == 0 ? 1 : (size_t)(64 - __builtin_clzll(x) + 6) / 7;
}

/* Bits that tell so many bytes apart; 0: there is one only. */
static unsigned bits_for(unsigned count)
{
    unsigned bits = 0;
    while (1u << bits < count)
        bits++;
    return bits;
}

static void put_few(tt_buf *out, const unsigned char *plane, uint32_t n, const unsigned char *values,
                    unsigned count)
{
    unsigned char number[256];
    unsigned bits = bits_for(count), filled = 0;
    unsigned char *at = tt_wire_room(out, ((size_t)n * bits + 7) / 8);
    for (unsigned i = 0; i < count; i++)
        number[values[i]] = (unsigned char)i;
    uint64_t word = 0;
    for (uint32_t i = 0; at != NULL && bits > 0 && i < n; i++) {
        word |= (uint64_t)number[plane[i]] << filled;
        for (filled += bits; filled >= 8; filled -= 8, word >>= 8)
            *at++ = (unsigned char)word;
    }
    if (at != NULL && filled > 0)
        *at = (unsigned char)word;
}

static void put_plane(tt_buf *out, const uint64_t *words, uint32_t n, unsigned shift,
                      unsigned char *plane)
{
    bool is_there[256] = { false };
    unsigned char values[256];
    unsigned count = 0;
    for (uint32_t i = 0; i < n; i++) {
        plane[i] = (unsigned char)(words[i] >> shift);
        is_there[plane[i]] = true;
    }
    for (unsigned i = 0; i < 256; i++)
        if (is_there[i])
            values[count++] = (unsigned char)i;
    bool is_few = bits_for(count) <= BITS_MAX && count + ((size_t)n * bits_for(count) + 7) / 8 < n;
    tt_buf_varint(out, is_few ? count : 0);
    (void)tt_buf_append(out, is_few ? values : plane, is_few ? count : n);
    if (is_few)
        put_few(out, plane, n, values, count);
}

static void put_planes(tt_buf *out, const uint64_t *words, uint32_t n, unsigned width)
{
    unsigned char *plane = malloc(n);
    if (plane == NULL) {
        out->st = TT_ENOMEM;
        return;
    }
    for (unsigned i = 0; i < width; i++)
        put_plane(out, words, n, 8 * i, plane);
    free(plane);
}

/* Takes away what is near; returns the bytes as varints. */
static size_t reduce(const uint64_t *entries, const uint64_t *near, uint32_t n, uint64_t *words)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t from = near != NULL ? near[i] : i > 0 ? entries[i - 1] : 0;
        words[i] = tt_zigzag(entries[i] - from);
        bytes += varint_len(words[i]);
    }
    return bytes;
}

/* Chooses what is taken away; returns the form, and the words. */
static unsigned choose(const uint64_t *entries, const uint64_t *guesses, uint32_t n, bool is_int,
                       uint64_t *words, size_t *varints)
{
    bool is_narrow = !is_int;
    for (uint32_t i = 0; is_narrow && i < n; i++)
        is_narrow = fits_f32(entries[i]);
    size_t width = is_narrow ? 4 : 8;
    *varints = SIZE_MAX;
    if (guesses != NULL && (*varints = reduce(entries, guesses, n, words)) < width * n * 3 / 4)
        return FROM_GUESS;
    if (n >= PLANES_FROM && !is_narrow && reduce(entries, NULL, n, words) < 8 * (size_t)n)
        return FROM_BEFORE | IS_PLANES;
    if (n < PLANES_FROM || is_int)
        return FORM_END;
    for (uint32_t i = 0; i < n; i++)
        words[i] = is_narrow ? narrow(entries[i]) : entries[i];
    return FROM_NOTHING | IS_PLANES | (is_narrow ? IS_NARROW : 0);
}

bool tt_planes_put(tt_buf *out, const uint64_t *entries, const uint64_t *guesses, uint32_t n, bool is_int,
                   size_t most)
{
    tt_buf data = { 0 };
    size_t varints;
    bool is_less = false;
    uint64_t *words = malloc(n * sizeof *words);
    if (words == NULL) {
        out->st = TT_ENOMEM;
        return false;
    }
    uint64_t mode = tt_float_mode_begin();
    unsigned form = choose(entries, guesses, n, is_int, words, &varints);
    tt_float_mode_end(mode);
    if (form == FORM_END)
        goto out;
    bool is_exact = form == FROM_GUESS && varints == n;
    for (uint32_t i = 0; is_exact && i < n; i++)
        is_exact = words[i] == 0;
    if (form == FROM_GUESS && !is_exact && n >= PLANES_FROM)
        form |= IS_PLANES;
    unsigned char first = (unsigned char)form;
    (void)tt_buf_append(&data, &first, 1);
    if (form & IS_PLANES)
        put_planes(&data, words, n, form & IS_NARROW ? 4 : 8);
    else
        for (uint32_t i = 0; !is_exact && i < n; i++)
            tt_buf_varint(&data, words[i]);
    is_less = data.st < 0 || data.len + varint_len(data.len) < most; /* of a failure `out` learns */
    if (is_int && data.len < n)
        is_less = false; /* times take a byte a point at least: see TT_INDEX_UNPAID_MAX */
    if (is_less) {
        tt_buf_varint(out, data.len);
        tt_wire_buf(out, &data);
    }
out:
    tt_buf_free(&data);
    free(words);
    return is_less;
}

/* ---- back -------------------------------------------------------------------- */

bool tt_planes_are_guessed(tt_cursor data)
{
    (void)tt_cursor_varint(&data);
    const unsigned char *form = tt_cursor_take(&data, 1);
    return form != NULL && (*form & FROM_MASK) == FROM_GUESS;
}

/* Adds a plane of few bytes to the words. */
static void take_few(const unsigned char *packed, const unsigned char *values, unsigned count,
                     unsigned shift, uint32_t n, uint64_t *out)
{
    uint64_t of[1 << BITS_MAX], word = 0;
    unsigned bits = bits_for(count), filled = 0;
    for (unsigned i = 0; i < 1u << BITS_MAX; i++)
        of[i] = i < count ? (uint64_t)values[i] << shift : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (filled < bits) {
            word |= (uint64_t)*packed++ << filled;
            filled += 8;
        }
        out[i] |= of[word & ((1u << bits) - 1)];
        word >>= bits;
        filled -= bits;
    }
}

static tt_status take_planes(tt_cursor *data, unsigned width, uint32_t n, uint64_t *out)
{
    memset(out, 0, n * sizeof *out);
    for (unsigned i = 0; i < width; i++) {
        uint64_t count = tt_cursor_varint(data);
        if (count > 1u << BITS_MAX)
            return TT_EFORMAT;
        const unsigned char *values = tt_cursor_take(data, count > 0 ? count : n);
        const unsigned char *packed =
            tt_cursor_take(data, count > 0 ? ((uint64_t)n * bits_for((unsigned)count) + 7) / 8 : 0);
        if (values == NULL || packed == NULL)
            return TT_EFORMAT;
        if (count > 0 && (count > 1 || values[0] != 0))
            take_few(packed, values, (unsigned)count, 8 * i, n, out);
        for (uint32_t k = 0; count == 0 && k < n; k++)
            out[k] |= (uint64_t)values[k] << 8 * i;
    }
    return TT_OK;
}

tt_status tt_planes_take(tt_cursor data, const uint64_t *guesses, uint32_t n, uint64_t *out)
{
    uint64_t len = tt_cursor_varint(&data);
    const unsigned char *form = tt_cursor_take(&data, 1);
    if (form == NULL || len != tt_cursor_left(&data) + 1 || *form >= FORM_END)
        return TT_EFORMAT;
    unsigned from = *form & FROM_MASK;
    if (from > FROM_GUESS || (from == FROM_GUESS) != (guesses != NULL) ||
        ((*form & IS_NARROW) != 0 && (from != FROM_NOTHING || (*form & IS_PLANES) == 0)))
        return TT_EFORMAT;
    tt_status st = TT_OK;
    if (*form & IS_PLANES)
        st = take_planes(&data, *form & IS_NARROW ? 4 : 8, n, out);
    else if (tt_cursor_left(&data) == 0)
        memset(out, 0, n * sizeof *out);
    else
        for (uint32_t i = 0; i < n; i++)
            out[i] = tt_cursor_varint(&data);
    if (st == TT_OK && (data.is_bad || tt_cursor_left(&data) > 0))
        st = TT_EFORMAT;
    if (st < 0)
        return st;
    uint64_t mode = tt_float_mode_begin();
    for (uint32_t i = 0; from != FROM_NOTHING && i < n; i++)
        out[i] = tt_unzigzag(out[i]) + (guesses != NULL ? guesses[i] : i > 0 ? out[i - 1] : 0);
    for (uint32_t i = 0; (*form & IS_NARROW) != 0 && i < n; i++)
        out[i] = widen(out[i]);
    tt_float_mode_end(mode);
    return TT_OK;
}
