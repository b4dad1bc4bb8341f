/* history.c -- the courses of one file of a run, found by site and by name.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/history.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tt_status tt_history_create(int32_t rank, tt_history *out)
{
    *out = (tt_history){ .rank = rank, .last_step = -1 };
    tt_status st = tt_sites_create(&out->names);
    return st == TT_OK ? tt_sites_create(&out->patterns) : st;
}

void tt_history_free(tt_history *h)
{
    free(h->courses);
    free(h->by_site);
    free(h->subjects);
    free(h->settings);
    tt_sites_free(h->names);
    tt_sites_free(h->patterns);
    tt_arena_free(&h->texts);
    *h = (tt_history){ 0 };
}

void tt_histories_free(tt_histories *histories)
{
    if (histories == NULL)
        return;
    for (int32_t i = 0; i < histories->count; i++)
        tt_history_free(&histories->files[i]);
    free(histories->files);
    free(histories->losses);
    free(histories);
}

/* The number of a name, with an empty row if it is new. */
static tt_status add_subject(tt_history *h, const char *name, int32_t *out)
{
    size_t had = h->subject_cap;
    tt_status st = tt_sites_intern(h->names, name, strlen(name), NULL, out);
    if (st == TT_OK)
        st = tt_grow(&h->subjects, &h->subject_cap, (size_t)*out + 1, sizeof *h->subjects);
    if (st == TT_OK && h->subject_cap > had)
        memset(h->subjects + had, 0, (h->subject_cap - had) * sizeof *h->subjects);
    return st;
}

/* layers.3.attn becomes layers.#.attn */
static tt_status find_pattern(tt_history *h, const char *name, int32_t *out)
{
    char text[256];
    size_t len = 0;
    for (const char *at = name; *at != '\0' && len + 1 < sizeof text; at++) {
        bool is_digit = *at >= '0' && *at <= '9';
        if (!is_digit || len == 0 || text[len - 1] != '#')
            text[len++] = is_digit ? '#' : *at;
    }
    return tt_sites_intern(h->patterns, text, len, NULL, out);
}

tt_course *tt_history_course(tt_history *h, int32_t site, const char *name)
{
    if (site < 0)
        return NULL;
    if ((size_t)site < h->by_site_cap && h->by_site[site] != 0)
        return &h->courses[h->by_site[site] - 1];
    size_t had = h->by_site_cap;
    tt_course c = {
        .site = site, .rank = -1, .ndim = -1, .dtype = -1, .marked_step = -1, .last_skipped_step = -1
    };
    const char *tail;
    c.kind = tt_course_kind_of(name, &tail);
    tt_status st = tt_grow(&h->by_site, &h->by_site_cap, (size_t)site + 1, sizeof *h->by_site);
    if (st == TT_OK && h->by_site_cap > had)
        memset(h->by_site + had, 0, (h->by_site_cap - had) * sizeof *h->by_site);
    if (st == TT_OK)
        st = tt_grow(&h->courses, &h->cap, (size_t)h->count + 1, sizeof *h->courses);
    if (st == TT_OK)
        st = add_subject(h, tail, &c.subject);
    if (st == TT_OK)
        st = find_pattern(h, tail, &c.pattern);
    c.name = st == TT_OK ? tt_arena_text(&h->texts, name, strlen(name)) : NULL;
    if (c.name == NULL)
        return NULL;
    c.tail = c.name + (tail - name);
    c.class_name = h->subjects[c.subject].class_name;
    h->courses[h->count] = c;
    h->by_site[site] = h->subjects[c.subject].of[c.kind] = ++h->count;
    return &h->courses[h->count - 1];
}

const tt_course *tt_history_next(const tt_history *h, const tt_course *after)
{
    for (size_t site = after != NULL ? (size_t)after->site + 1 : 0; site < h->by_site_cap; site++)
        if (h->by_site[site] != 0)
            return &h->courses[h->by_site[site] - 1];
    return NULL;
}

tt_status tt_history_module(tt_history *h, const char *path, const char *class_name)
{
    int32_t subject;
    tt_status st = add_subject(h, path, &subject);
    if (st < 0)
        return st;
    tt_subject *s = &h->subjects[subject];
    s->class_name = tt_arena_text(&h->texts, class_name, strlen(class_name));
    for (size_t k = 0; k < TT_COURSE_KIND_COUNT_; k++)
        if (s->of[k] != 0)
            h->courses[s->of[k] - 1].class_name = s->class_name;
    return s->class_name != NULL ? TT_OK : TT_ENOMEM;
}

const char *tt_history_class(const tt_history *h, const char *path)
{
    int32_t subject = tt_sites_find(h->names, path, strlen(path));
    return subject >= 0 ? h->subjects[subject].class_name : NULL;
}

static tt_setting *find_setting(const tt_history *h, const char *key)
{
    for (int32_t i = 0; i < h->setting_count; i++)
        if (strcmp(h->settings[i].key, key) == 0)
            return &h->settings[i];
    return NULL;
}

tt_status tt_history_set(tt_history *h, const char *key, const char *value)
{
    tt_setting *known = find_setting(h, key);
    tt_setting one = { .key = known != NULL ? known->key : tt_arena_text(&h->texts, key, strlen(key)),
                       .value = tt_arena_text(&h->texts, value, strlen(value)) };
    if (one.key == NULL || one.value == NULL)
        return TT_ENOMEM;
    if (known == NULL) {
        tt_status st =
            tt_grow(&h->settings, &h->setting_cap, (size_t)h->setting_count + 1, sizeof *h->settings);
        if (st < 0)
            return st;
        known = &h->settings[h->setting_count++];
    }
    *known = one;
    return TT_OK;
}

const char *tt_history_setting(const tt_history *h, const char *key)
{
    const tt_setting *known = find_setting(h, key);
    return known != NULL ? known->value : NULL;
}

const tt_course *tt_history_of(const tt_history *h, const tt_course *course, tt_course_kind kind)
{
    int32_t at = h->subjects[course->subject].of[kind];
    return at != 0 ? &h->courses[at - 1] : NULL;
}

const tt_course *tt_history_find(const tt_history *h, tt_course_kind kind, const char *name,
                                 const char *ending)
{
    char text[TT_SITE_NAME_MAX];
    int len = snprintf(text, sizeof text, "%s%s", name, ending);
    int32_t subject =
        len > 0 && (size_t)len < sizeof text ? tt_sites_find(h->names, text, (size_t)len) : -1;
    int32_t at = subject >= 0 ? h->subjects[subject].of[kind] : 0;
    return at != 0 ? &h->courses[at - 1] : NULL;
}
