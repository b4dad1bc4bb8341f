/* planes.h -- a column of numbers that a guess or few different bytes make shorter.
 *
 * For chunk.c only.  A word is what is left of an entry when something near it is taken away: a guess
 * from other columns, or the entry before.  Words are written as varints, or, of many points, byte by byte: all
 * lowest bytes, then all second ones; of a float the upper bytes are alike, the lower ones noise.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_PLANES_H
#define TT_STORE_PLANES_H

#include "base/wire.h"
#include "store/points.h"

/* The columns that a guess is made of. */
#define TT_GUESS_MAP(X) X(COUNT) X(NAN) X(POSINF) X(NEGINF) X(MIN) X(MAX) X(SUM) X(SUMSQ)
#define X(name) TT_GUESS_##name,
typedef enum tt_guess_base { TT_GUESS_MAP(X) TT_GUESS_COUNT_ } tt_guess_base;
#undef X
extern const tt_column tt_guess_columns[TT_GUESS_COUNT_];

/* The bases that a column is guessed from, as bits; 0: it is not guessed.  No base is guessed itself. */
unsigned tt_guess_bases(tt_column column);
/* Guesses a column.  bases: entries of each base that tt_guess_bases names. */
void tt_guess(tt_column column, const uint64_t *const bases[TT_GUESS_COUNT_], uint32_t n, uint64_t *out);

/* Appends the length and the data if they take less than `most` bytes; else leaves `out` as it is.
 * guesses: NULL: none. */
bool tt_planes_put(tt_buf *out, const uint64_t *entries, const uint64_t *guesses, uint32_t n, bool is_int,
                   size_t most);
/* Is data of this packing made with guesses? */
bool tt_planes_are_guessed(tt_cursor data);
/* Unpacks n entries; guesses: where they are needed. */
tt_status tt_planes_take(tt_cursor data, const uint64_t *guesses, uint32_t n, uint64_t *out);

#endif
