/* verdict.c -- what may be said of a run in which nothing was found.
 *
 * "healthy" is a claim.  It is made only if enough was seen: some steps, gradients, a loss, the calls of a
 * model, and a program that came to its end.  Else the verdict says what was looked at and what was not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/verdict.h"
#include "health/rule.h"

#include <stdio.h>
#include <string.h>

enum { ENOUGH = 2 * TT_COURSE_WARM }; /* steps: most rules need fewer */

/* Why rules lack their data.  The first that fits is the cause. */
static const struct {
    const char *needs; /* words of tt_rule.needs, with commas */
    unsigned without;  /* what the run has none of; 0: something else is missing */
    const char *reason;
    bool is_grave; /* without it nobody can call a run healthy */
} causes[] = {
    { "activation/,calls of,tensortap/batch,tensortap/rows", TT_SEEN_MODEL, "no call of a model", true },
    { "gradient/,parameter/,tensortap/state,tensortap/update,tensortap/silent,learning_rate",
      TT_SEEN_OPTIMIZER, "no optimizer", true },
    { "gradient/", TT_SEEN_GRADIENT, "no gradients", true },
    { "a loss", TT_SEEN_LOSS, "no loss", true },
    { "tensortap/update,tensortap/silent", 0, "too few steps, or no weight that can be sampled", false },
    { "tensortap/batch,tensortap/rows", 0, "no inputs of a model", false },
    { "attention_entropy/", 0, "no entropy of attention, which tensortap.monitor records", false },
};

static bool has_any(const char *text, const char *words)
{
    for (const char *at = words; *at != '\0';) {
        size_t len = strcspn(at, ",");
        for (const char *from = text; strlen(from) >= len; from++)
            if (strncmp(from, at, len) == 0)
                return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static void add_gap(tt_seen *seen, const char *gap)
{
    for (int32_t i = 0; i < seen->gap_count; i++)
        if (strcmp(seen->gaps[i], gap) == 0) /* of another rank */
            return;
    if (seen->gap_count < TT_GAPS_MOST)
        seen->gaps[seen->gap_count++] = gap;
}

tt_seen tt_seen_of(const tt_history *files, int32_t count)
{
    tt_seen seen = { 0 };
    int64_t first = INT64_MAX, last = -1;
    for (int32_t i = 0; i < count; i++) {
        for (int32_t k = 0; k < files[i].count; k++) {
            const tt_course *course = &files[i].courses[k];
            bool is_empty = course->points + course->eval_points == 0; /* its parts could not be joined */
            bool is_state = course->kind == TT_COURSE_STATE;
            bool is_held = is_state && ((int)course->latest & TT_STATE_IS_OPTIMIZED) != 0;
            *(is_empty ? &seen.unjoined_kinds : &seen.kinds) |=
                course->kind == TT_COURSE_RATE || is_held                            ? TT_SEEN_OPTIMIZER
                : course->kind == TT_COURSE_LOSS || tt_course_is_logged_loss(course) ? TT_SEEN_LOSS
                : course->kind == TT_COURSE_ACTIVATION || course->kind == TT_COURSE_BATCH ? TT_SEEN_MODEL
                : course->kind == TT_COURSE_GRADIENT ? TT_SEEN_GRADIENT
                                                     : 0u;
            if (is_state || course->points == 0) /* states are told at the end, too */
                continue;
            first = course->first_step < first ? course->first_step : first;
            last = course->last_step > last ? course->last_step : last;
        }
        for (int32_t k = 0; k < files[i].gap_count; k++)
            add_gap(&seen, files[i].gaps[k]);
        seen.unjoined += files[i].unjoined;
    }
    if (last >= first && !__builtin_sub_overflow(last, first, &seen.steps))
        seen.steps += seen.steps < INT64_MAX;
    else /* steps of a file may be anything */
        seen.steps = last >= first ? INT64_MAX : 0;
    return seen;
}

const char *tt_seen_reason(const tt_seen *seen, const tt_rule *rule)
{
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (has_any(rule->needs, causes[i].needs) && (seen->kinds & causes[i].without) == 0)
            return (seen->unjoined_kinds & causes[i].without) != 0 ? "parts that could not be joined"
                                                                   : causes[i].reason;
    return NULL;
}

static bool is_grave(const char *reason)
{
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i].is_grave && strcmp(causes[i].reason, reason) == 0)
            return true;
    return false;
}

static bool is_first_reason(const tt_findings *findings, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(findings->unchecked[k].reason, findings->unchecked[i].reason) == 0)
            return false;
    return true;
}

void tt_verdict_note_unchecked(tt_findings *findings)
{
    tt_buf lines = { 0 };
    if (findings->unchecked_count == 0)
        return;
    for (size_t i = 0; i < findings->unchecked_count; i++) {
        const char *reason = findings->unchecked[i].reason;
        if (!is_first_reason(findings, i))
            continue;
        (void)tt_buf_printf(&lines, "%s%s: %s", i > 0 ? "\n" : "", reason,
                            findings->unchecked[i].rule->id);
        for (size_t k = i + 1; k < findings->unchecked_count; k++)
            if (strcmp(findings->unchecked[k].reason, reason) == 0)
                (void)tt_buf_printf(&lines, ", %s", findings->unchecked[k].rule->id);
    }
    tt_answers *notes = &findings->notes;
    tt_answers_put(notes, &TT_ANSWER(NOTE, NOTE, .rule = "unchecked",
                                     .sentence = tt_answers_text(
                                         notes, "not checked: %zu of %d rules lack their data",
                                         findings->unchecked_count, (int)findings->rules),
                                     .detail = tt_answers_take(notes, &lines)));
}

static void say_found(const tt_findings *findings, tt_buf *out)
{
    size_t errors = 0;
    while (errors < findings->count && findings->items[errors].severity == TT_SEVERITY_ERROR)
        errors++;
    size_t warnings = findings->count - errors;
    if (errors > 0)
        (void)tt_buf_printf(out, "%zu error%s%s", errors, errors == 1 ? "" : "s",
                            warnings > 0 ? ", " : "");
    if (warnings > 0)
        (void)tt_buf_printf(out, "%zu warning%s", warnings, warnings == 1 ? "" : "s");
}

static bool has_gaps(const tt_seen *seen)
{
    return seen->gap_count > 0 || seen->unjoined > 0;
}

static void say_gaps(const tt_seen *seen, tt_buf *out)
{
    for (int32_t i = 0; i < seen->gap_count; i++)
        (void)tt_buf_printf(out, "; %.200s", seen->gaps[i]);
    if (seen->unjoined > 0)
        (void)tt_buf_printf(out, "; %d site%s not looked at: the ranks' parts could not be joined",
                            (int)seen->unjoined, seen->unjoined == 1 ? "" : "s");
}

/* In short: an answer of its own says it whole. */
static void say_stop(const char *stopped, tt_buf *out)
{
    enum { MOST = 100 };
    size_t len = strcspn(stopped, "\n"), cut = len;
    if (len > MOST)
        for (cut = MOST; cut > 0 && stopped[cut] != ' ';)
            cut--;
    (void)tt_buf_printf(out, "; the program was %.*s%s", (int)cut, stopped, cut < len ? " ..." : "");
}

static void say_what_was_seen(const tt_findings *findings, const tt_seen *seen, tt_buf *out)
{
    (void)tt_buf_printf(out, "nothing found in %lld step%s%s", (long long)seen->steps,
                        seen->steps == 1 ? "" : "s",
                        seen->steps < ENOUGH ? ", too few for most rules" : "");
    if (seen->stopped != NULL)
        say_stop(seen->stopped, out);
    say_gaps(seen, out);
    if (findings->unread > 0)
        (void)tt_buf_printf(out, "; %lld points are damaged", (long long)findings->unread);
    for (size_t i = 0; i < findings->unchecked_count; i++)
        if (is_first_reason(findings, i)) {
            if (i == 0)
                (void)tt_buf_printf(out, "; %zu of %d rules had no data: ", findings->unchecked_count,
                                    (int)findings->rules);
            (void)tt_buf_printf(out, "%s%s", i > 0 ? ", " : "", findings->unchecked[i].reason);
        }
}

tt_status tt_verdict_make(tt_findings *findings, const tt_seen *seen, tt_buf *out)
{
    bool is_seen =
        seen->steps >= ENOUGH && seen->stopped == NULL && !has_gaps(seen) && findings->unread == 0;
    for (size_t i = 0; i < findings->unchecked_count; i++)
        is_seen = is_seen && !is_grave(findings->unchecked[i].reason);
    findings->is_healthy = findings->count == 0 && is_seen;
    findings->has_gaps = has_gaps(seen);
    if (findings->count > 0) {
        say_found(findings, out);
        say_gaps(seen, out);
    } else if (findings->is_healthy) {
        (void)tt_buf_text(out, "healthy");
    } else {
        say_what_was_seen(findings, seen, out);
    }
    return out->st;
}
