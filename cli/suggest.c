/* suggest.c -- finds the word that was probably meant.
 *
 * Exists because "unknown command" does not help a person who typed `sohw`.
 * SPDX-License-Identifier: Apache-2.0 */
#include "suggest.h"

#include <stdint.h>
#include <string.h>

enum { LONGEST = 95 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t tt_suggest_distance(const char *a, size_t m, const char *b, size_t n)
{
    if (m > LONGEST || n > LONGEST)
        return SIZE_MAX;
    size_t cost[LONGEST + 1][LONGEST + 1]; /* [i][j]: of the first i letters of a and j of b */
    for (size_t i = 0; i <= m; i++) {
        for (size_t j = 0; j <= n; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            size_t changed = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            cost[i][j] = least(changed, least(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[m][n];
}

const char *tt_suggest_word(const char *typed, const char *(*word_at)(size_t i))
{
    const char *near = NULL, *word;
    size_t best = 3;
    for (size_t i = 0; (word = word_at(i)) != NULL; i++) {
        size_t len = strlen(word), distance = tt_suggest_distance(typed, strlen(typed), word, len);
        if (distance < best && distance < len) {
            best = distance;
            near = word;
        }
    }
    return near;
}
