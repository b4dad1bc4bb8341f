/* suggest.h -- finds the word that was probably meant.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_SUGGEST_H
#define TT_CLI_SUGGEST_H

#include <stddef.h>

/* How many letters have to be added, removed, changed or swapped with their
 * neighbour to make b of a.  Words longer than 95 letters: SIZE_MAX. */
size_t tt_suggest_distance(const char *a, const char *b);

#endif
