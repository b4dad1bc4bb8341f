/* checker.c -- the table of rules, and the two ways to feed them: a run that is there, and one that
 * is being written.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/dropout.h"
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

/* What the rules look at, of a run that is there. */
typedef struct inquiry {
    tt_run *run;             /* of files */
    tt_run *joined;          /* NULL: it cannot be joined ... */
    tt_run *own;             /* owned; ... if it was joined here */
    tt_histories *histories; /* owned, unless the caller keeps them */
    tt_replicas replicas;    /* owned */
    tt_nonfinite first;
} inquiry;

/* Adds what the run says beyond the rules: what its first NaN or Inf was computed from, and its fate. */
static tt_status complete(const inquiry *q, const char *path, tt_findings *found, tt_error *err)
{
    tt_run *run = q->run;
    const tt_nonfinite *first = &q->first;
    tt_answers *notes = &found->notes;
    tt_status st = tt_fail_plain(err, tt_run_fate(run, path, found->unread, notes));
    const char *word = tt_answers_run(notes, run, path);
    for (size_t i = 0; st == TT_OK && i < found->count; i++) {
        tt_answer *one = &found->items[i];
        tt_answers_set_code(notes, one, run);
        if (one->kind != TT_ANSWER_ORIGIN) {
            const char *position =
                one->rank_count == 1 ? tt_answers_position(notes, run, one->ranks[0]) : "";
            if (*position != '\0')
                one->sentence = tt_answers_text(notes, "%s (%s)", one->sentence, position);
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
    if (q->joined == NULL && run->taps[0]->rank != run->taps[run->count - 1]->rank)
        tt_answers_put(notes,
                       &TT_ANSWER(NOTE, NOTE, .rule = "unplaced",
                                  .sentence = "the run does not say where its tensors belong: each "
                                              "rank was looked at alone"));
    if (st == TT_OK && q->joined != NULL)
        st = tt_fail_plain(err, tt_dropout_note(run, notes));
    tt_verdict_note_unchecked(found);
    return st < 0 ? st : tt_fail_plain(err, notes->st);
}

/* Reads a run, as it was opened or joined.  seen: what was read of it before; NULL: it is not kept. */
static tt_status inquire(tt_run *run, const char *allow, tt_histories **seen, inquiry *out, tt_error *err)
{
    tt_error why;
    out->run = tt_run_parts(run);
    out->joined = run;
    tt_status st = TT_OK;
    if (out->run == run)
        st = tt_run_join(run, &out->own, &why);
    if (st != TT_OK && st != TT_EMISMATCH) {
        *err = why;
        return st;
    }
    out->joined = out->run != run ? run : out->own;
    st = tt_histories_read(seen != NULL ? seen : &out->histories, out->run, out->joined, err);
    if (st == TT_OK && seen != NULL)
        out->histories = *seen;
    if (st == TT_OK && out->joined != NULL)
        st = tt_fail_plain(err, tt_replicas_find(out->run, &out->replicas));
    return st == TT_OK ? tt_run_nonfinite(out->run, allow, &out->first, err) : st;
}

static void end_inquiry(inquiry *q, bool keeps_histories)
{
    if (!keeps_histories)
        tt_histories_free(q->histories);
    tt_replicas_free(&q->replicas);
    tt_run_close(q->own);
}

static tt_evidence evidence_of(const inquiry *q)
{
    const tt_histories *h = q->histories;
    return (tt_evidence){ .histories = h->files,
                          .history_count = h->count,
                          .losses = h->losses,
                          .loss_count = h->loss_count,
                          .rank_count = q->run->count,
                          .replicas = h->is_joined ? &q->replicas : NULL,
                          .origin = &q->first,
                          .origin_rank = q->first.file >= 0 ? q->run->taps[q->first.file]->rank : -1 };
}

tt_status tt_health(tt_run *run, const tt_health_options *options, tt_findings **out, tt_error *err)
{
    const tt_health_options none = { 0 };
    options = options != NULL ? options : &none;
    inquiry q = { 0 }, good = { 0 };
    tt_findings *usual = NULL, *found = NULL; /* owned */
    tt_status st = check_ids(options->select, "select", err);
    if (st == TT_OK)
        st = check_ids(options->ignore, "ignore", err);
    if (st == TT_OK)
        st = inquire(run, options->allow, options->seen, &q, err);
    if (st == TT_OK && options->baseline != NULL) {
        st = inquire(options->baseline, options->allow, NULL, &good, err);
        if (st == TT_OK) {
            const tt_evidence of_good = evidence_of(&good);
            st = tt_fail_plain(err, tt_findings_make(&of_good, &usual));
        }
    }
    if (st == TT_OK) {
        tt_evidence evidence = evidence_of(&q);
        evidence.baseline = good.histories != NULL ? good.histories->files : NULL;
        evidence.usual = usual;
        st = tt_fail_plain(err, tt_findings_make(&evidence, &found));
    }
    if (st == TT_OK) {
        leave_asked_for(found, options);
        for (int32_t i = 0; i < q.histories->count; i++)
            found->unread += q.histories->files[i].unread;
        st = tt_fail_plain(err, tt_findings_judge(found, tt_run_totals(q.run).stopped));
    }
    if (st == TT_OK)
        st = complete(&q, options->path, found, err);
    if (st == TT_OK) {
        *out = found;
        found = NULL;
    }
    tt_findings_free(found);
    end_inquiry(&q, options->seen != NULL);
    end_inquiry(&good, false);
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

void tt_checker_setting(tt_checker *checker, const char *key, const char *value)
{
    (void)tt_history_set(&checker->history, key, value);
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
    const tt_evidence evidence = { .histories = &checker->history, .history_count = 1, .rank_count = 1 };
    tt_status st = tt_findings_make(&evidence, &p);
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
