/* words.c -- what people type.
 *
 * Exists so that every command takes the same words (strtoll would take " 3" and "0x3" too), and
 * because "unknown command" does not help a person who typed `sohw`.
 * SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Digits from text on; *end is what follows.  False: none, or too large. */
static bool parse_digits(const char *text, const char **end, int64_t *out)
{
    size_t len = strspn(text, "0123456789");
    errno = 0;
    *out = len > 0 ? strtoll(text, NULL, 10) : 0;
    *end = text + len;
    return len > 0 && errno == 0;
}

bool tt_range_count(const char *text, void *out)
{
    const char *end;
    int64_t x;
    if (!parse_digits(text, &end, &x) || *end != '\0')
        return false;
    if (out != NULL)
        *(int64_t *)out = x;
    return true;
}

bool tt_range_from_one(const char *text, void *out)
{
    int64_t x;
    return tt_range_count(text, &x) && x >= 1 && tt_range_count(text, out);
}

bool tt_range_parse(const char *text, void *out)
{
    tt_range range = TT_RANGE_ALL;
    const char *at = text;
    if (*at != ':' && !parse_digits(at, &at, &range.first))
        return false;
    if (*at == '\0') {
        range.last = range.first;
    } else {
        if (*at++ != ':')
            return false;
        if (*at != '\0' && (!parse_digits(at, &at, &range.last) || *at != '\0'))
            return false;
    }
    if (range.first > range.last || at == text)
        return false;
    *(tt_range *)out = range;
    return true;
}

bool tt_words_have(const char *words, const char *text)
{
    size_t len = strlen(text);
    for (const char *at = words; (at = strstr(at, text)) != NULL; at++)
        if (len > 0 && strcspn(text, ", ") == len && (at == words || at[-1] == ' ') &&
            strchr(", ", at[len]) != NULL && strcmp(text, "or") != 0)
            return true;
    return false;
}

enum { LONGEST = 95 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t tt_words_distance(const char *a, size_t m, const char *b, size_t n)
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

bool tt_words_join(const char *text, void *to)
{
    char **words = to, *joined = NULL;
    if (asprintf(&joined, "%s%s%s", *words != NULL ? *words : "", *words != NULL ? "," : "", text) < 0)
        return false;
    free(*words);
    *words = joined;
    return true;
}

const char *tt_words_near(const char *typed, const char *(*word_at)(size_t i))
{
    const char *near = NULL, *word;
    size_t best = 3;
    for (size_t i = 0; (word = word_at(i)) != NULL; i++) {
        size_t len = strlen(word), distance = tt_words_distance(typed, strlen(typed), word, len);
        if (distance < best && distance < len) {
            best = distance;
            near = word;
        }
    }
    return near;
}
