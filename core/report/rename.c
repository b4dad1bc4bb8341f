/* rename.c -- the same site under another name.
 *
 * Exists because `layers` becomes `blocks`, or a model is wrapped and every name gets
 * `module.`, and the runs before and after are then the ones to compare.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/diff.h"

#include <stdio.h>
#include <string.h>

bool tt_rename_apply(const tt_rename *rename, bool is_back, const char *name, char *out, size_t room)
{
    const char *from = is_back ? rename->to : rename->from, *to = is_back ? rename->from : rename->to;
    const char *at = *from != '\0' ? strstr(name, from) : NULL;
    if (at == NULL)
        return false;
    int len = snprintf(out, room, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    return len >= 0 && (size_t)len < room;
}

/* Whether a has a partner in b, by its own name or the other. */
static bool has_partner(const tt_run *b, const char *name, const tt_rename *rename)
{
    char other[TT_RENAME_ROOM];
    return tt_run_find(b, name) >= 0 ||
           (rename != NULL && tt_rename_apply(rename, false, name, other, sizeof other) &&
            tt_run_find(b, other) >= 0);
}

static const char *first_alone(const tt_run *a, const tt_run *b, const tt_rename *rename, int32_t *count)
{
    const char *first = NULL;
    for (int32_t i = 0; i < tt_run_site_count(a); i++) {
        const char *name = tt_run_site_name(a, i);
        if (!tt_site_is_shown(name, NULL) || has_partner(b, name, rename))
            continue;
        first = first != NULL ? first : name;
        ++*count;
    }
    return first;
}

static bool is_boundary(char c)
{
    return c == '.' || c == '/' || c == '\0';
}

bool tt_diff_guess_rename(const tt_run *a, const tt_run *b, tt_rename *out)
{
    int32_t alone_a = 0, alone_b = 0;
    const char *x = first_alone(a, b, NULL, &alone_a), *y = first_alone(b, a, NULL, &alone_b);
    if (x == NULL || y == NULL || alone_a != alone_b)
        return false;
    /* What lies between the common beginning and the common end, as whole words. */
    size_t m = strlen(x), n = strlen(y), start = 0, tail = 0;
    while (x[start] != '\0' && x[start] == y[start])
        start++;
    while (start > 0 && !is_boundary(x[start - 1]))
        start--;
    while (tail < m - start && tail < n - start && x[m - 1 - tail] == y[n - 1 - tail])
        tail++;
    while (tail > 0 && !is_boundary(x[m - tail]) &&
           !(tail < m && tail < n && is_boundary(x[m - tail - 1]) && is_boundary(y[n - tail - 1])))
        tail--;
    if (start > 0 && (m - tail == start || n - tail == start))
        start--; /* one of them is empty: a word was put in behind this '/' or '.' */
    size_t from = m - tail - start, to = n - tail - start;
    if (from == 0 || to == 0 || from >= sizeof out->from || to >= sizeof out->to)
        return false;
    tt_rename guess;
    (void)snprintf(guess.from, sizeof guess.from, "%.*s", (int)from, x + start);
    (void)snprintf(guess.to, sizeof guess.to, "%.*s", (int)to, y + start);
    int32_t left = 0;
    if (first_alone(a, b, &guess, &left) != NULL)
        return false; /* it does not explain them all */
    *out = guess;
    return true;
}
