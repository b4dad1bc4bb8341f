/* checker.c -- the table of rules, and the two ways to feed them: a run that is there, and one that
 * is being written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"
#include "health/verdict.h"
#include "report/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tt_rule *const rules[] = {
#define X(name) &tt_rule_##name,
    TT_RULES(X)
#undef X
};
enum { RULES = sizeof rules / sizeof *rules };

const tt_rule *tt_rule_at(size_t i)
{
    return i < RULES ? rules[i] : NULL;
}

static const tt_rule *find_rule(const char *id, size_t len)
{
    for (size_t i = 0; i < RULES; i++)
        if (strlen(rules[i]->id) == len && strncmp(rules[i]->id, id, len) == 0)
            return rules[i];
    return NULL;
}

const tt_rule *tt_rule_find(const char *id)
{
    return find_rule(id, strlen(id));
}

/* ---- options ------------------------------------------------------------------ */

static tt_status check_ids(const char *words, const char *option, tt_error *err)
{
    for (const char *at = words; at != NULL && *at != '\0';) {
        size_t len = strcspn(at, ",");
        if (find_rule(at, len) == NULL)
            return tt_fail(err, TT_EINVAL, "%s takes ids of rules, not '%.*s'", option,
                           (int)(len < 100 ? len : 100), at);
        at += len + (at[len] == ',');
    }
    return TT_OK;
}

bool tt_health_asks(const tt_health_options *options, const tt_rule *rule)
{
    return (options->select == NULL || tt_glob_match(options->select, rule->id)) &&
           (options->ignore == NULL || !tt_glob_match(options->ignore, rule->id));
}

/* ---- a run --------------------------------------------------------------------- */

/* Every rule runs, because one that is not asked for may be the cause of a finding that is. */
static void leave_asked_for(tt_findings *findings, const tt_health_options *options)
{
    size_t kept = 0, unchecked = 0;
    for (size_t i = 0; i < findings->count; i++)
        if (tt_health_asks(options, tt_rule_find(findings->items[i].rule)))
            findings->items[kept++] = findings->items[i];
    for (size_t i = 0; i < findings->unchecked_count; i++)
        if (tt_health_asks(options, findings->unchecked[i].rule))
            findings->unchecked[unchecked++] = findings->unchecked[i];
    findings->count = kept;
    findings->unchecked_count = unchecked;
    for (size_t i = 0; i < RULES; i++)
        findings->rules += tt_health_asks(options, rules[i]);
}

/* The command that shows what a finding is about. */
static void add_commands(tt_answers *owner, const char *run, tt_answer *found)
{
    if (found->site_count > 0)
        tt_answers_next(owner, found, "tensortap stats %s %s", run,
                        tt_answers_word(owner, found->names[0]));
    else
        tt_answers_next(owner, found, "tensortap show %s", run);
}

/* Adds what the run says beyond the rules: what its first NaN or Inf was computed from, and its fate. */
static tt_status complete(tt_run *run, const tt_nonfinite *first, const char *path, tt_findings *found,
                          tt_error *err)
{
    tt_answers *notes = &found->notes;
    tt_status st = tt_fail_plain(err, tt_run_fate(run, path, found->unread, notes));
    const char *word = tt_answers_run(notes, run, path);
    for (size_t i = 0; st == TT_OK && i < found->count; i++) {
        tt_answer *one = &found->items[i];
        tt_answers_set_code(notes, one, run);
        if (one->kind != TT_ANSWER_ORIGIN) {
            add_commands(notes, word, one);
            continue;
        }
        tt_answers_next(notes, one, "tensortap nan %s", word);
        st = tt_origin_answer(run, first, path, notes, one, err);
    }
    if (st == TT_OK && first->site >= 0 && first->point.is_skipped) {
        tt_answer skipped = TT_ANSWER(ORIGIN, NOTE, .rule = "nonfinite");
        tt_answers_next(notes, &skipped, "tensortap nan %s", word);
        st = tt_origin_answer(run, first, path, notes, &skipped, err);
        tt_answers_put(notes, &skipped);
    }
    tt_origin_rest(run, first, notes);
    tt_verdict_note_unchecked(found);
    return st < 0 ? st : tt_fail_plain(err, notes->st);
}

tt_status tt_health(tt_run *run, const tt_health_options *options, tt_findings **out, tt_error *err)
{
    const tt_health_options none = { 0 };
    options = options != NULL ? options : &none;
    tt_histories *own = NULL, *good = NULL; /* owned */
    tt_histories **seen = options->seen != NULL ? options->seen : &own;
    tt_findings *usual = NULL, *found = NULL; /* owned */
    tt_nonfinite first, good_first;
    tt_status st = check_ids(options->select, "select", err);
    if (st == TT_OK)
        st = check_ids(options->ignore, "ignore", err);
    if (st == TT_OK)
        st = tt_histories_read(seen, run, err);
    if (st == TT_OK)
        st = tt_run_nonfinite(run, options->allow, &first, err);
    if (st == TT_OK && options->baseline != NULL) {
        st = tt_histories_read(&good, options->baseline, err);
        if (st == TT_OK)
            st = tt_run_nonfinite(options->baseline, options->allow, &good_first, err);
        if (st == TT_OK)
            st = tt_fail_plain(
                err, tt_findings_make(good->files, good->count, &good_first, NULL, NULL, &usual));
    }
    if (st == TT_OK)
        st = tt_fail_plain(err, tt_findings_make((*seen)->files, (*seen)->count, &first,
                                                 good != NULL ? good->files : NULL, usual, &found));
    if (st == TT_OK) {
        leave_asked_for(found, options);
        for (int32_t i = 0; i < (*seen)->count; i++)
            found->unread += (*seen)->files[i].unread;
        st = tt_fail_plain(err, tt_findings_judge(found, tt_run_totals(run).stopped));
    }
    if (st == TT_OK)
        st = complete(run, &first, options->path, found, err);
    if (st == TT_OK) {
        *out = found;
        found = NULL;
    }
    tt_findings_free(found);
    tt_histories_free(own);
    tt_histories_free(good);
    tt_findings_free(usual);
    return st;
}

/* ---- while a run is written ------------------------------------------------------ */

struct tt_checker {
    tt_history history;
    uint64_t *said; /* owned; hashes of what was found before */
    size_t said_count, said_cap;
};

tt_status tt_checker_create(tt_checker **out, tt_error *err)
{
    tt_checker *checker = calloc(1, sizeof *checker);
    tt_status st = checker != NULL ? tt_history_create(-1, &checker->history) : TT_ENOMEM;
    if (st < 0) {
        tt_checker_free(checker);
        return tt_fail_plain(err, st);
    }
    *out = checker;
    return TT_OK;
}

void tt_checker_free(tt_checker *checker)
{
    if (checker == NULL)
        return;
    tt_history_free(&checker->history);
    free(checker->said);
    free(checker);
}

void tt_checker_allow(tt_checker *checker, const char *glob)
{
    checker->history.allow = glob;
}

void tt_checker_module(tt_checker *checker, const char *path, const char *class_name)
{
    (void)tt_history_module(&checker->history, path, class_name);
}

void tt_checker_see(tt_checker *checker, const char *name, const tt_event *event)
{
    tt_course *course = tt_history_course(&checker->history, event->site, name);
    if (course != NULL)
        tt_history_see(&checker->history, course, event);
}

/* Has it been said?  If not, it has from now on. */
static bool is_new(tt_checker *checker, const tt_answer *found)
{
    uint64_t hash = (uint64_t)(uintptr_t)tt_rule_find(found->rule) * UINT64_C(0x9e3779b97f4a7c15) +
                    (found->site_count > 0 ? (uint64_t)found->sites[0] + 1 : 0);
    for (size_t i = 0; i < checker->said_count; i++)
        if (checker->said[i] == hash)
            return false;
    if (tt_grow(&checker->said, &checker->said_cap, checker->said_count + 1, sizeof hash) < 0)
        return false;
    checker->said[checker->said_count++] = hash;
    return true;
}

tt_status tt_checker_find(tt_checker *checker, tt_findings **out, tt_error *err)
{
    tt_findings *p;
    tt_status st = tt_findings_make(&checker->history, 1, NULL, NULL, NULL, &p);
    if (st < 0)
        return tt_fail_plain(err, st);
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++)
        if (is_new(checker, &p->items[i]))
            p->items[kept++] = p->items[i];
    p->count = kept;
    *out = p;
    return TT_OK;
}
