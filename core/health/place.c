/* place.c -- the sites of a finding in a few words.
 *
 * "moes.*.experts (28 parameters)" says precisely which: * stands for the names that differ, and if not all
 * that are called so are meant, their number is there, too.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <stdio.h>
#include <string.h>

enum { LISTED = 3, PLACE_MOST = 300, PART_MOST = 60 };

static const char *unit_of(tt_course_kind kind)
{
    static const char *const units[TT_COURSE_KIND_COUNT_] = {
        [TT_COURSE_ACTIVATION] = "modules",
        [TT_COURSE_LOSS] = "losses",
        [TT_COURSE_MODE] = "modules",
        [TT_COURSE_ATTENTION] = "heads",
    };
    return units[kind] != NULL ? units[kind] : "parameters";
}

/* The length of the part of a dotted name that begins here. */
static size_t part_len(const char *at)
{
    return strcspn(at, ".");
}

/* Where the part with this number begins; NULL: the name has fewer. */
static const char *part_at(const char *name, size_t number)
{
    for (; number > 0; number--) {
        name += part_len(name);
        if (*name == '\0')
            return NULL;
        name++;
    }
    return name;
}

typedef enum sharing { NONE_LEFT, EQUAL, DIFFERENT } sharing;

/* Do all suspects have the same part with this number? */
static sharing compare_parts(const tt_case *c, size_t number)
{
    const char *first = part_at(c->suspects[0]->tail, number);
    sharing found = EQUAL;
    for (size_t i = 0; i < c->suspect_count; i++) {
        const char *other = part_at(c->suspects[i]->tail, number);
        if (first == NULL || other == NULL)
            return NONE_LEFT;
        if (part_len(first) != part_len(other) || strncmp(first, other, part_len(first)) != 0)
            found = DIFFERENT;
    }
    return found;
}

/* Is a name, or its beginning, the first parts of this pattern? */
static bool is_called(const char *name, const char *pattern)
{
    for (;; name++, pattern++) {
        size_t len = part_len(name), wanted = part_len(pattern);
        bool is_any = wanted == 1 && *pattern == '*';
        if (!is_any && (len != wanted || strncmp(name, pattern, len) != 0))
            return false;
        name += len;
        pattern += wanted;
        if (*pattern == '\0' || *name == '\0')
            return *pattern == '\0';
    }
}

/* What the names have in common; "": nothing.  is_near: all are of this very module. */
static void find_pattern(const tt_case *c, char out[PLACE_MOST], bool *is_near)
{
    size_t len = 0, at = 0, deepest = 0, used = 0;
    sharing found;
    *out = '\0';
    for (size_t i = 0; at + PART_MOST + 2 < PLACE_MOST && (found = compare_parts(c, i)) != NONE_LEFT;
         i++) {
        const char *part = part_at(c->suspects[0]->tail, i);
        size_t most = part_len(part) < PART_MOST ? part_len(part) : PART_MOST;
        at += (size_t)snprintf(out + at, PLACE_MOST - at, "%s%.*s", i > 0 ? "." : "",
                               found == EQUAL ? (int)most : 1, found == EQUAL ? part : "*");
        if (found == EQUAL) {
            len = at;
            used = i + 1;
        }
    }
    out[len] = '\0'; /* what differs at the end says nothing */
    for (size_t i = 0; i < c->suspect_count; i++)
        for (size_t depth = 0; part_at(c->suspects[i]->tail, depth) != NULL; depth++)
            deepest = depth + 1 > deepest ? depth + 1 : deepest;
    *is_near = len > 0 && deepest <= used + 1 && strchr(out, '*') == NULL;
}

/* The sites of this kind that are called so. */
static size_t count_called(const tt_case *c, const char *pattern)
{
    size_t count = 0;
    TT_EACH_COURSE(c, course)
        count += course->kind == c->suspects[0]->kind && is_called(course->tail, pattern);
    return count;
}

const char *tt_case_place(tt_case *c)
{
    if (c->suspect_count == 0)
        return "";
    const tt_course *first = c->suspects[0];
    char pattern[PLACE_MOST], text[2 * PLACE_MOST];
    bool is_near;
    size_t at = 0;
    if (c->suspect_count == 1)
        return first->kind == TT_COURSE_LOSS || first->kind == TT_COURSE_OTHER ? first->name
                                                                               : first->tail;
    find_pattern(c, pattern, &is_near);
    if (*pattern != '\0' && strcmp(pattern, "*") != 0 && (is_near || c->suspect_count > LISTED)) {
        size_t all = count_called(c, pattern);
        const char *of = all > c->suspect_count ? tt_case_join(c, " of %zu", all) : "";
        return tt_case_join(c, "%s (%zu%s %s)", pattern, c->suspect_count, of, unit_of(first->kind));
    }
    for (size_t i = 0; i < c->suspect_count && i < LISTED; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%.*s", i > 0 ? ", " : "", PART_MOST,
                               c->suspects[i]->tail);
    if (c->suspect_count > LISTED)
        (void)snprintf(text + at, sizeof text - at, " and %zu more %s", c->suspect_count - LISTED,
                       unit_of(first->kind));
    return tt_case_join(c, "%s", text);
}

const char *tt_case_subject(tt_case *c)
{
    static const struct {
        const char *one, *several;
    } words[TT_COURSE_KIND_COUNT_] = {
        [TT_COURSE_ACTIVATION] = { "the output of ", "outputs of " },
        [TT_COURSE_ACTIVATION_GRADIENT] = { "the gradient of the output of ",
                                            "gradients of outputs of " },
        [TT_COURSE_GRADIENT] = { "the gradient of ", "gradients of " },
        [TT_COURSE_PARAMETER] = { "parameter ", "parameters " },
        [TT_COURSE_STATE] = { "parameter ", "parameters " },
        [TT_COURSE_UPDATE] = { "parameter ", "parameters " },
    };
    if (c->suspect_count == 0)
        return "";
    tt_course_kind kind = c->suspects[0]->kind;
    const char *place = tt_case_place(c);
    const char *word = c->suspect_count > 1 ? words[kind].several : words[kind].one;
    bool says_it = strchr(place, '(') != NULL && strchr(place, ')') != NULL; /* "fc (2 parameters)" */
    bool is_silent =
        word == NULL || (says_it && words[kind].several == words[TT_COURSE_PARAMETER].several);
    return is_silent ? place : tt_case_join(c, "%s%s", word, place);
}
