/* suggest.h -- finds the word that was probably meant.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_SUGGEST_H
#define TT_CLI_SUGGEST_H

#include <stddef.h>

/* How many letters have to be added, removed, changed or swapped with their
 * neighbour to make b of a.  Words longer than 95 letters: SIZE_MAX. */
size_t tt_suggest_distance(const char *a, size_t a_len, const char *b, size_t b_len);
/* Returns the word that differs from the typed one in two letters at most; NULL: none.
 * word_at: word number i, NULL behind the last. */
const char *tt_suggest_word(const char *typed, const char *(*word_at)(size_t i));

#endif
