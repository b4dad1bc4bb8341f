/* settings.c -- what the program of a run had set, and where its code is.
 *
 * Exists because a setting or a changed line explains what numbers only show: a weight decay of 5, a dropout of
 * 0.9.  docs/FORMAT.md has the keys.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/settings.h"
#include "report/answer.h"
#include "report/diff.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NAMED = 12 };

/* ---- those of one run ------------------------------------------------------- */

typedef struct keyed {
    tt_setting setting;
    int32_t order; /* of appearance */
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    int order = strcmp(x->setting.key, y->setting.key);
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

static int by_order(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

tt_status tt_settings_read(const tt_run *run, tt_settings *out)
{
    tt_setting one;
    size_t count = 0, kept = 0;
    *out = (tt_settings){ 0 };
    while (tt_run_setting(run, 0, (int32_t)count, &one) == TT_OK)
        count++;
    keyed *all = calloc(count + 1, sizeof *all);
    out->items = calloc(count + 1, sizeof *out->items);
    if (all == NULL || out->items == NULL) {
        free(all);
        tt_settings_free(out);
        return TT_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        (void)tt_run_setting(run, 0, (int32_t)i, &all[i].setting);
        all[i].order = (int32_t)i;
    }
    qsort(all, count, sizeof *all, by_key);
    for (size_t i = 0; i < count;
         i++) { /* the last of a key is valid, and stands where the first stood */
        bool is_same = kept > 0 && strcmp(all[kept - 1].setting.key, all[i].setting.key) == 0;
        if (is_same)
            all[kept - 1].setting = all[i].setting;
        else
            all[kept++] = all[i];
    }
    qsort(all, kept, sizeof *all, by_order);
    for (size_t i = 0; i < kept; i++)
        if (*all[i].setting.value != '\0')
            out->items[out->count++] = all[i].setting;
    free(all);
    return TT_OK;
}

void tt_settings_free(tt_settings *settings)
{
    free(settings->items);
    *settings = (tt_settings){ 0 };
}

const char *tt_settings_find(const tt_settings *settings, const char *key)
{
    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->items[i].key, key) == 0)
            return settings->items[i].value;
    return NULL;
}

/* The value of a key of the other run, as it is or renamed (is_back: from new to old); NULL: none. */
static const char *find_partner(const tt_settings *in, const char *key, const tt_rename *rename,
                                bool is_back)
{
    char other[512];
    const char *value = tt_settings_find(in, key);
    if (value == NULL && rename != NULL && tt_rename_apply(rename, is_back, key, other, sizeof other))
        value = tt_settings_find(in, other);
    return value;
}

/* ---- where the code is ------------------------------------------------------- */

/* The class of the module whose path has this length; NULL: there is none. */
static const char *class_at(const tt_run *run, const char *path, size_t len)
{
    tt_module module;
    const char *found = NULL;
    for (int32_t f = 0; f < run->count && found == NULL; f++)
        for (int32_t i = 0; tt_run_module(run, f, i, &module) == TT_OK; i++)
            if (strlen(module.path) == len && strncmp(module.path, path, len) == 0)
                found = module.class_name; /* the last one is valid */
    return found;
}

/* The length of the path above; 0: there is none. */
static size_t parent_of(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '.')
        len--;
    return len > 0 ? len - 1 : 0;
}

/* Looks for the nearest module whose class has code of the user's. */
static const char *describe_code(tt_answers *answers, const tt_run *run, const tt_settings *settings,
                                 const char *path)
{
    const char *own = NULL, *line = NULL, *class_name = NULL;
    size_t prefix = strcspn(path, ":.");
    tt_buf root = { 0 }, key = { 0 };
    prefix = path[prefix] == ':' ? prefix + 1 : 0; /* "Generator:0" */
    (void)tt_buf_printf(&root, "%.*s(root)", (int)prefix, path);
    for (size_t len = strcspn(path, "["); line == NULL; len = parent_of(path, len)) {
        class_name = len > prefix       ? class_at(run, path, len)
                     : root.st == TT_OK ? class_at(run, root.data, root.len)
                                        : NULL;
        own = own != NULL ? own : class_name;
        key.len = 0;
        if (class_name != NULL && tt_buf_printf(&key, "code/%s", class_name) == TT_OK)
            line = tt_settings_find(settings, key.data);
        if (len <= prefix)
            break;
    }
    const char *text = NULL;
    if (line != NULL && own != class_name)
        text = tt_answers_text(answers, "%s in %s.forward (%s)", own, class_name, line);
    else if (line != NULL)
        text = tt_answers_text(answers, "%s.forward (%s)", class_name, line);
    else if (root.st == TT_OK) { /* all of it is torch's: the line that calls the model */
        key.len = 0;
        if (tt_buf_printf(&key, "code/%s", root.data) == TT_OK)
            line = tt_settings_find(settings, key.data);
        if (line != NULL)
            text = tt_answers_text(answers, "%s%sthe model is called at %s", own != NULL ? own : "",
                                   own != NULL ? "; " : "", line);
    }
    if (root.st < 0 || key.st < 0)
        answers->st = root.st < 0 ? root.st : key.st;
    tt_buf_free(&root);
    tt_buf_free(&key);
    return text;
}

void tt_answers_set_code(tt_answers *answers, tt_answer *of, const tt_run *run)
{
    tt_settings settings;
    const char *path = of->site_count > 0 ? strchr(of->names[0], '/') : NULL;
    if (of->site_count > 0 && path == NULL)
        path = "/(root)"; /* of the whole model: gradient_norm */
    if (path == NULL || strncmp(of->names[0], "loss/", 5) == 0)
        return; /* a loss has its line in its name */
    tt_status st = tt_settings_read(run, &settings);
    if (st < 0) {
        answers->st = st;
        return;
    }
    if (strncmp(of->names[0], "tensortap/", 10) == 0 && strchr(path + 1, '/') != NULL)
        path = strchr(path + 1, '/'); /* tensortap/update/0.weight */
    of->code = describe_code(answers, run, &settings, path + 1);
    tt_settings_free(&settings);
}

/* ---- those of two runs ------------------------------------------------------- */

typedef struct difference {
    tt_buf text;
    size_t count;
} difference;

static void add_line(difference *d, const char *key, const char *a, const char *b)
{
    if (d->count++ >= MOST_NAMED)
        return;
    bool is_file = strncmp(key, "file/", 5) == 0; /* a hash says nothing */
    (void)tt_buf_printf(&d->text, "%s%s ", d->count > 1 ? "\n" : "", is_file ? key + 5 : key);
    if (a != NULL && b != NULL && is_file)
        (void)tt_buf_text(&d->text, "has changed");
    else if (a != NULL && b != NULL)
        (void)tt_buf_printf(&d->text, "is %s against %s", a, b);
    else
        (void)tt_buf_printf(&d->text, "is %s%sonly in the %s run",
                            is_file     ? ""
                            : a != NULL ? a
                                        : b,
                            is_file ? "" : " ", a != NULL ? "first" : "second");
}

static bool is_code(const char *key)
{
    return strncmp(key, "file/", 5) == 0 || strncmp(key, "code/", 5) == 0;
}

/* Is it the same file, whatever the line? */
static bool is_same_file(const char *a, const char *b)
{
    size_t len = strcspn(a, ":");
    return len == strcspn(b, ":") && strncmp(a, b, len) == 0;
}

static const char *commit_of(const tt_run *run)
{
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        if (strcmp(tt_run_info_key(run, 0, i), "commit") == 0)
            return tt_run_info_value(run, 0, i);
    return NULL;
}

/* "a setting differs: optimizer/lr is 0.1 against 0.2", or how many, and each on a line of its own. */
static void conclude(difference *d, const char *rule, tt_answers *out)
{
    tt_answer premise = TT_ANSWER(PREMISE, WARNING, .rule = rule);
    bool is_code = strcmp(rule, "code") == 0;
    if (d->count > MOST_NAMED)
        (void)tt_buf_printf(&d->text, "\nand %zu more", d->count - MOST_NAMED);
    size_t count = d->count;
    const char *lines = tt_answers_take(out, &d->text);
    if (count == 0)
        return;
    const char *what = is_code      ? "the code differs"
                       : count == 1 ? "a setting differs"
                                    : tt_answers_text(out, "%zu settings differ", count);
    premise.sentence = count == 1 ? tt_answers_text(out, "%s: %s", what, lines) : what;
    premise.detail = count == 1 ? NULL : lines;
    tt_answers_put(out, &premise);
}

/* Did other numbers of ranks share the batch?  What one of them was called with is a part of it. */
static bool has_other_world(const tt_run *a, const tt_run *b)
{
    const char *x = tt_run_info(a, "world_size"), *y = tt_run_info(b, "world_size");
    return x != NULL && y != NULL && strcmp(x, y) != 0;
}

static bool is_left_out(const char *key, bool is_split, const char *ignore)
{
    const char *name = strrchr(key, ':') != NULL ? strrchr(key, ':') + 1 : key;
    return strncmp(key, "tensortap/", 10) == 0 || strcmp(key, TT_STEPS_BEFORE) == 0 ||
           (is_split && strncmp(name, "batch/", 6) == 0) ||
           (ignore != NULL && tt_glob_match(ignore, key));
}

tt_status tt_settings_compare(const tt_run *a, const tt_run *b, const char *ignore,
                              const tt_rename *rename, tt_answers *out)
{
    tt_settings in_a = { 0 }, in_b = { 0 };
    difference set = { 0 }, code = { 0 };
    tt_status st = tt_settings_read(a, &in_a);
    if (st == TT_OK)
        st = tt_settings_read(b, &in_b);
    bool are_known = st == TT_OK && in_a.count > 0 && in_b.count > 0;
    bool is_split = has_other_world(a, b);
    const char *commits[2] = { commit_of(a), commit_of(b) };
    if (are_known && commits[0] != NULL && commits[1] != NULL && strcmp(commits[0], commits[1]) != 0)
        add_line(&code, "the commit", commits[0], commits[1]);
    for (size_t i = 0; are_known && i < in_a.count; i++) {
        const tt_setting *one = &in_a.items[i];
        const char *other = find_partner(&in_b, one->key, rename, false);
        if (is_left_out(one->key, is_split, ignore) || (other != NULL && strcmp(one->value, other) == 0))
            continue;
        if (other == NULL || strncmp(one->key, "code/", 5) != 0 || !is_same_file(one->value, other))
            add_line(is_code(one->key) ? &code : &set, one->key, one->value, other);
    }
    for (size_t i = 0; are_known && i < in_b.count; i++) {
        const tt_setting *one = &in_b.items[i];
        if (find_partner(&in_a, one->key, rename, true) == NULL &&
            !is_left_out(one->key, is_split, ignore))
            add_line(is_code(one->key) ? &code : &set, one->key, NULL, one->value);
    }
    conclude(&set, "settings", out);
    conclude(&code, "code", out);
    tt_settings_free(&in_a);
    tt_settings_free(&in_b);
    return st < 0 ? st : out->st;
}
