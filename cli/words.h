/* words.h -- what people type: steps (3, 3:7, 3:, :7, :), numbers, one of a few words, and words
 * with a slip in them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_WORDS_H
#define TT_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_range {
    int64_t first, last; /* both belong to it */
} tt_range;

#define TT_RANGE_ALL                          \
    {                                         \
        .first = INT64_MIN, .last = INT64_MAX \
    }

#define TT_RANGE_TAKES "A:B, A:, :B or A"

static inline bool tt_range_has(const tt_range *range, int64_t step)
{
    return step >= range->first && step <= range->last;
}

/* For tt_option.read.  False: not a range.  A:B is from A up to and with B. */
bool tt_range_parse(const char *text, void *out); /* tt_range */
/* A whole number that is not negative; one from 1 on.  out may be NULL: then the text is only checked. */
bool tt_range_count(const char *text, void *out); /* int64_t */
bool tt_range_from_one(const char *text, void *out);
/* Adds a pattern to those that were given before, with a comma; the text is never freed. */
bool tt_words_join(const char *text, void *to); /* char * */
/* Is it one of these words?  "train, eval or all" */
bool tt_words_have(const char *words, const char *text);

/* How many letters have to be added, removed, changed or swapped with their
 * neighbour to make b of a.  Words longer than 95 letters: SIZE_MAX. */
size_t tt_words_distance(const char *a, size_t a_len, const char *b, size_t b_len);
/* Returns the word that differs from the typed one in two letters at most; NULL: none.
 * word_at: word number i, NULL behind the last. */
const char *tt_words_near(const char *typed, const char *(*word_at)(size_t i));

#endif
