/* draft.c -- how rules report, and which of their findings remain.
 *
 * Exists so that a rule is only its condition and its sentence.  A finding that follows from another
 * is folded into that one here: an explosion is one finding, and the dead units behind it are counted.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"
#include "health/verdict.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE_MOST = 600, SITES_MOST = 4096 };

/* A finding, and what decides whether it remains. */
typedef struct candidate {
    tt_answer answer;
    const tt_rule *rule;
    const char *hides;             /* as that of the rule ... */
    bool is_cause;                 /* ... or more, and it comes before others of its severity */
    const struct candidate *cause; /* borrowed; what it follows from, when all are there; NULL: nothing */
} candidate;

/* Findings while they are collected. */
typedef struct tt_draft {
    tt_findings public;    /* first: tt_findings_free gets its address; its notes have the texts of all */
    candidate *candidates; /* owned; public has those that remain */
    size_t count, cap, unchecked_cap;
    bool has_ranks; /* the run has several */
    tt_seen seen;
} tt_draft;

void tt_findings_free(tt_findings *findings)
{
    tt_draft *draft = (tt_draft *)findings;
    if (draft == NULL)
        return;
    tt_answers_free(&findings->notes);
    free(findings->items);
    free(draft->candidates);
    free(findings->unchecked);
    free(draft);
}

const tt_answer *tt_findings_about(const tt_findings *findings, int32_t site)
{
    for (size_t i = 0; i < findings->count; i++)
        for (size_t k = 0; k < findings->items[i].site_count; k++)
            if (findings->items[i].sites[k] == site)
                return &findings->items[i];
    return NULL;
}

/* ---- what rules call --------------------------------------------------------- */

const tt_course *tt_case_next(tt_case *c, tt_course_kind kind, const tt_course *after)
{
    for (const tt_course *course = after; (course = tt_history_next(c->history, course)) != NULL;)
        if (course->kind == kind && course->points + course->eval_points > 0) {
            c->has_data = true;
            return course;
        }
    return NULL;
}

static bool is_after(const tt_case *c, const tt_course *a, const tt_course *b)
{
    if (a->kind != TT_COURSE_GRADIENT || b->kind != TT_COURSE_GRADIENT)
        return false;
    const tt_course *weight_a = tt_history_of(c->history, a, TT_COURSE_PARAMETER);
    const tt_course *weight_b = tt_history_of(c->history, b, TT_COURSE_PARAMETER);
    return weight_a != NULL && weight_b != NULL && weight_a->site > weight_b->site;
}

void tt_case_add(tt_case *c, const tt_course *course)
{
    if (c->suspect_count >= SITES_MOST)
        return;
    tt_status st = tt_grow(&c->suspects, &c->suspect_cap, c->suspect_count + 1, sizeof(tt_course *));
    if (st < 0) {
        c->st = st;
        return;
    }
    /* Backward reaches the last layer first; people read from the first on. */
    size_t at = c->suspect_count++;
    for (; at > 0 && is_after(c, c->suspects[at - 1], course); at--)
        c->suspects[at] = c->suspects[at - 1];
    c->suspects[at] = course;
    bool is_first = c->suspect_count == 1;
    if (is_first || course->first_step < c->found.first_step)
        c->found.first_step = course->first_step;
    if (is_first || course->last_step > c->found.last_step)
        c->found.last_step = course->last_step;
}

void tt_case_steps(tt_case *c, int64_t first, int64_t last)
{
    c->found.first_step = first;
    c->found.last_step = last;
}

void tt_case_number(tt_case *c, const char *name, double value)
{
    tt_answer_number(&c->found, name, value);
}

void tt_case_ranks(tt_case *c, const int32_t *ranks, size_t count)
{
    c->ranks = ranks;
    c->rank_count = count;
}

/* The rank that a finding is about, if its rule does not name others; -1: the whole job. */
static int32_t rank_of(const tt_case *c)
{
    int32_t rank = c->suspect_count > 0 ? c->suspects[0]->rank : -1;
    if (!tt_case_is_joined(c))
        return c->draft->has_ranks ? c->history->rank : -1;
    for (size_t i = 1; i < c->suspect_count; i++)
        rank = c->suspects[i]->rank == rank ? rank : -1;
    return rank;
}

/* Returns a copy that lives as long as the finding. */
static const char *keep(tt_case *c, const char *text)
{
    const char *kept = tt_answers_keep(&c->draft->public.notes, text);
    if (c->draft->public.notes.st < 0)
        c->st = c->draft->public.notes.st;
    return kept;
}

const char *tt_case_text(tt_case *c, double x)
{
    char number[TT_NUMBER_TEXT];
    (void)tt_number_short(x, number);
    return keep(c, number);
}

const char *tt_case_join(tt_case *c, const char *format, ...)
{
    char text[SENTENCE_MOST];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return keep(c, text);
}

bool tt_course_is_logged_loss(const tt_course *course)
{
    return course->kind == TT_COURSE_OTHER && course->dtype < 0 &&
           tt_glob_match("loss,train_loss,train/loss", course->name);
}

const tt_course *tt_case_next_loss(tt_case *c, const tt_course *after)
{
    if (tt_case_next(c, TT_COURSE_LOSS, NULL) != NULL)
        return tt_case_next(c, TT_COURSE_LOSS, after);
    bool had_one = after != NULL;
    while ((after = tt_case_next(c, TT_COURSE_OTHER, after)) != NULL)
        if (tt_course_is_logged_loss(after))
            return after;
    c->has_data = had_one; /* other numbers are none */
    return NULL;
}

void tt_case_say(tt_case *c, tt_severity severity, const char *format, ...)
{
    tt_draft *d = c->draft;
    char text[SENTENCE_MOST];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tt_answers *owner = &d->public.notes;
    candidate found = { .answer = c->found, .rule = c->rule };
    tt_answer *answer = &found.answer;
    found.hides = c->hides != NULL ? c->hides : c->rule->hides;
    found.is_cause = c->hides != NULL;
    answer->severity = severity;
    answer->likelihood = severity == TT_SEVERITY_ERROR ? TT_LIKELIHOOD_CERTAIN
                         : c->likelihood != 0          ? c->likelihood
                                                       : c->rule->likelihood;
    answer->remedy = c->remedy != NULL ? c->remedy : c->rule->remedy;
    answer->site_count = c->suspect_count;
    answer->sentence = keep(c, text);
    answer->place = keep(c, tt_case_place(c));
    int32_t rank = rank_of(c);
    if (c->ranks != NULL)
        tt_answers_set_ranks(owner, answer, c->ranks, c->rank_count);
    else
        tt_answers_set_ranks(owner, answer, &rank, rank >= 0);
    int32_t *sites = tt_answers_alloc(owner, (c->suspect_count + 1) * sizeof *sites);
    const char **names = tt_answers_alloc(owner, (c->suspect_count + 1) * sizeof *names);
    if (owner->st < 0)
        c->st = owner->st;
    for (size_t i = 0; c->st == TT_OK && i < c->suspect_count; i++) {
        sites[i] = c->suspects[i]->site;
        names[i] = keep(c, c->suspects[i]->name);
    }
    answer->sites = sites;
    answer->names = names;
    bool is_found = c->suspect_count > 0 || c->is_of_run;
    if (c->st == TT_OK && is_found)
        c->st = tt_grow(&d->candidates, &d->cap, d->count + 1, sizeof found);
    if (c->st == TT_OK && is_found)
        d->candidates[d->count++] = found;
    c->suspect_count = c->found.number_count = 0;
    c->is_of_run = false;
    c->ranks = NULL;
    c->remedy = c->hides = NULL;
    c->likelihood = TT_LIKELIHOOD_NONE;
}

double tt_case_typical(tt_case *c, tt_course_kind kind)
{
    enum { MOST = 1024 };
    double medians[MOST];
    size_t count = 0;
    const tt_course *course = NULL;
    while (count < MOST && (course = tt_case_next(c, kind, course)) != NULL)
        if (tt_course_is_warm(course) && (kind == TT_COURSE_UPDATE || tt_course_is_weight(course)))
            medians[count++] = tt_course_median(course);
    return count < 3 ? (double)NAN : tt_median(medians, count);
}

bool tt_case_is_optimized(const tt_case *c, const tt_course *course)
{
    const tt_course *state = tt_history_of(c->history, course, TT_COURSE_STATE);
    const int wanted = TT_STATE_REQUIRES_GRAD | TT_STATE_IS_OPTIMIZED;
    return state != NULL && ((int)state->latest & wanted) == wanted;
}

bool tt_course_is_bias(const tt_course *course)
{
    const char *dot = strrchr(course->tail, '.');
    return strstr(dot != NULL ? dot : course->tail, "bias") != NULL;
}

const tt_course *tt_case_beside(const tt_case *c, const tt_course *bias)
{
    char name[TT_SITE_NAME_MAX];
    const char *dot = strrchr(bias->tail, '.'), *word = strstr(dot != NULL ? dot : bias->tail, "bias");
    int len = word != NULL ? snprintf(name, sizeof name, "%.*sweight%s", (int)(word - bias->tail),
                                      bias->tail, word + strlen("bias"))
                           : -1;
    return len > 0 && (size_t)len < sizeof name
               ? tt_history_find(c->history, TT_COURSE_GRADIENT, name, "")
               : NULL;
}

bool tt_case_is_rate_settled(const tt_case *c)
{
    TT_EACH_COURSE(c, rate) {
        double before = tt_course_kept_at(rate, rate->first_step / 2 + rate->last_step / 2), most = 0;
        if (rate->kind != TT_COURSE_RATE)
            continue;
        for (int32_t i = 0; i < rate->kept.count; i++)
            most = rate->kept.values[i] > most ? rate->kept.values[i] : most;
        if (rate->latest > 1.01 * before || rate->latest < 0.1 * most) /* a schedule ends on nothing */
            return false;
    }
    return true;
}

double tt_case_rate(const tt_case *c, int64_t step)
{
    double most = (double)NAN;
    TT_EACH_COURSE(c, course) {
        if (course->kind == TT_COURSE_RATE && course->values > 0)
            most = fmax(most, tt_course_kept_at(course, step)); /* fmax skips NaN */
    }
    return most;
}

/* ---- running a rule ---------------------------------------------------------- */

static bool is_same_place(const tt_answer *a, const tt_answer *b)
{
    const char *name_a = a->site_count > 0 ? a->names[0] : "",
               *name_b = b->site_count > 0 ? b->names[0] : "";
    const char *tail; /* a gradient and its parameter have one place, and are two things */
    return strcmp(a->rule, b->rule) == 0 && strcmp(a->place, b->place) == 0 &&
           tt_course_kind_of(name_a, &tail) == tt_course_kind_of(name_b, &tail);
}

static bool ranks_have(const tt_answer *answer, int32_t rank)
{
    for (size_t i = 0; i < answer->rank_count; i++)
        if (answer->ranks[i] == rank)
            return true;
    return false;
}

/* A finding that several ranks have is one. */
static void join_ranks(tt_draft *d, size_t from)
{
    size_t kept = from;
    for (size_t i = from; i < d->count; i++) {
        tt_answer *found = &d->candidates[i].answer, *same = NULL;
        for (size_t k = from; k < kept && same == NULL; k++)
            same = is_same_place(&d->candidates[k].answer, found) ? &d->candidates[k].answer : NULL;
        if (same == NULL) {
            d->candidates[kept++] = d->candidates[i];
            continue;
        }
        int32_t *ranks =
            tt_answers_alloc(&d->public.notes, (same->rank_count + 1) * sizeof *ranks); /* in order */
        if (ranks == NULL || found->rank_count == 0 || ranks_have(same, found->ranks[0]))
            continue;
        memcpy(ranks, same->ranks, same->rank_count * sizeof *ranks);
        ranks[same->rank_count++] = found->ranks[0];
        same->ranks = ranks;
    }
    d->count = kept;
}

/* Runs one rule over all files. */
static tt_status apply(tt_draft *d, const tt_rule *rule, const tt_evidence *evidence)
{
    tt_case c = {
        .rule = rule, .found = { .rule = rule->id, .call = -1 }, .evidence = evidence, .draft = d
    };
    tt_findings *p = &d->public;
    size_t before = d->count;
    for (int32_t i = 0; i < evidence->history_count && c.st == TT_OK; i++) {
        c.history = &evidence->histories[i];
        rule->find(&c);
        c.suspect_count = c.found.number_count = 0;
        c.ranks = NULL;
        c.remedy = c.hides = NULL;
        c.likelihood = TT_LIKELIHOOD_NONE;
    }
    join_ranks(d, before);
    free(c.suspects);
    if (c.st == TT_OK && !c.has_data && d->count == before) {
        c.st = tt_grow(&p->unchecked, &d->unchecked_cap, p->unchecked_count + 1, sizeof *p->unchecked);
        const char *reason = tt_seen_reason(&d->seen, rule);
        if (reason == NULL)
            reason = tt_answers_text(&p->notes, "needs %s, which the run does not have", rule->needs);
        if (c.st == TT_OK)
            p->unchecked[p->unchecked_count++] = (tt_unchecked){ rule, reason };
    }
    return c.st < 0 ? c.st : p->notes.st;
}

/* ---- what remains ------------------------------------------------------------ */

static bool has_word(const char *words, const char *word)
{
    return words != NULL && tt_glob_match(words, word);
}

static size_t place_of(const tt_rule *rule)
{
    size_t i = 0;
    while (tt_rule_at(i) != NULL && tt_rule_at(i) != rule)
        i++;
    return i;
}

/* Of two that may each be the cause of the other it is the one that began earlier. */
static bool is_later(const candidate *found, const candidate *cause)
{
    int64_t step = found->answer.first_step, earlier = cause->answer.first_step;
    if (!has_word(found->hides, cause->rule->id))
        return true;
    return step != earlier ? step > earlier : place_of(found->rule) > place_of(cause->rule);
}

/* What a finding follows from; NULL: nothing that was found. */
static const candidate *cause_of(const candidate *found, const tt_draft *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const candidate *cause = &d->candidates[i];
        int64_t begin = cause->answer.first_step;
        if (cause->rule != found->rule && has_word(cause->hides, found->rule->id) &&
            is_later(found, cause) &&
            (begin < 0 || found->answer.first_step < 0 || found->answer.last_step >= begin))
            return cause;
    }
    return NULL;
}

/* The same, with nothing above it. */
static const candidate *first_cause_of(const candidate *found, const tt_draft *d)
{
    const candidate *cause = cause_of(found, d), *above = cause;
    for (size_t i = 0; above != NULL && i < d->count; i++) { /* two may name each other */
        cause = above;
        above = cause_of(cause, d);
    }
    return cause;
}

/* Says what was folded into a finding: "dead-units, growth (2)". */
static void tell_follows(tt_draft *d, candidate *cause)
{
    tt_answer *answer = &cause->answer;
    tt_buf text = { 0 };
    for (size_t i = 0; tt_rule_at(i) != NULL; i++) {
        size_t count = 0;
        for (size_t k = 0; k < d->count; k++)
            count += d->candidates[k].rule == tt_rule_at(i) && d->candidates[k].cause == cause;
        if (count > 0)
            (void)tt_buf_printf(&text, "%s%s", text.len > 0 ? ", " : "", tt_rule_at(i)->id);
        if (count > 1)
            (void)tt_buf_printf(&text, " (%zu)", count);
        answer->follow_count += count;
    }
    if (answer->follow_count > 0)
        answer->follows = tt_answers_take(&d->public.notes, &text);
}

static bool is_usual(const tt_answer *found, const tt_findings *baseline)
{
    for (size_t i = 0; baseline != NULL && i < baseline->count; i++)
        if (is_same_place(&baseline->items[i], found))
            return true;
    return false;
}

static int by_weight(const void *a, const void *b)
{
    const candidate *p = a, *q = b;
    const tt_answer *x = &p->answer, *y = &q->answer;
    size_t i = place_of(p->rule), k = place_of(q->rule);
    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (p->is_cause != q->is_cause)
        return p->is_cause ? -1 : 1;
    if (i != k)
        return i < k ? -1 : 1;
    int32_t site_x = x->site_count > 0 ? x->sites[0] : -1, site_y = y->site_count > 0 ? y->sites[0] : -1;
    int32_t rank_x = x->rank_count == 1 ? x->ranks[0] : -1,
            rank_y = y->rank_count == 1 ? y->ranks[0] : -1;
    return site_x != site_y ? (site_x < site_y ? -1 : 1) : (rank_x > rank_y) - (rank_x < rank_y);
}

/* Folds what follows from something else into that, drops what the baseline has too; puts the heaviest first. */
static tt_status settle(tt_draft *d, const tt_findings *baseline)
{
    tt_findings *p = &d->public;
    p->items = calloc(d->count + 1, sizeof *p->items);
    if (p->items == NULL)
        return TT_ENOMEM;
    if (d->count > 0)
        qsort(d->candidates, d->count, sizeof *d->candidates, by_weight);
    for (size_t i = 0; i < d->count; i++)
        d->candidates[i].cause = first_cause_of(&d->candidates[i], d);
    for (size_t i = 0; i < d->count; i++) {
        candidate *one = &d->candidates[i];
        if (one->cause != NULL || is_usual(&one->answer, baseline))
            continue;
        tell_follows(d, one);
        p->items[p->count++] = one->answer;
    }
    return p->notes.st;
}

tt_status tt_findings_make(const tt_evidence *evidence, tt_findings **out)
{
    const tt_history *files = evidence->histories;
    const int32_t count = evidence->history_count;
    tt_draft *draft = calloc(1, sizeof *draft);
    if (draft == NULL)
        return TT_ENOMEM;
    tt_status st = TT_OK;
    for (int32_t i = 1; i < count; i++)
        draft->has_ranks |= files[i].rank != files[0].rank;
    draft->seen = tt_seen_of(files, count);
    draft->public.verdict = "";
    for (size_t i = 0; st == TT_OK && tt_rule_at(i) != NULL; i++)
        st = apply(draft, tt_rule_at(i), evidence);
    if (st == TT_OK)
        st = settle(draft, evidence->usual);
    if (st == TT_OK)
        *out = &draft->public;
    else
        tt_findings_free(&draft->public);
    return st;
}

tt_status tt_findings_judge(tt_findings *findings, const char *stopped)
{
    tt_draft *draft = (tt_draft *)findings;
    draft->seen.stopped = stopped;
    tt_buf text = { 0 };
    tt_status st = tt_verdict_make(findings, &draft->seen, &text);
    findings->verdict = tt_answers_take(&findings->notes, &text);
    return st < 0 ? st : findings->notes.st;
}
