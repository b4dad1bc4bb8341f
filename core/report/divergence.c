/* divergence.c -- what a comparison of two runs comes to, as an answer.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/answer.h"
#include "report/diff.h"
#include "report/settings.h"
#include "store/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "12%", "0.5%"; below 0.01 % as a plain number. */
static const char *percent_text(tt_answers *all, double x)
{
    if (x < 1e-4)
        return tt_answers_text(all, "%.2g", x);
    return x >= 0.1 && x < 1e6 ? tt_answers_text(all, "%.0f%%", x * 100)
                               : tt_answers_text(all, "%.2g%%", x * 100);
}

/* "there rms is 0.5 against 0.25, off by 50% where rounding explains 0.1%" */
static const char *compare_values(tt_answers *all, const tt_diff_site *s, bool has_tolerance)
{
    const tt_diff_point *at = &s->first;
    bool has_floor = !has_tolerance && !isinf(at->deviation);
    bool is_shape = at->field == TT_FIELD_COUNT && s->shapes[0][0] != '\0';
    char a[TT_NUMBER_TEXT], b[TT_NUMBER_TEXT];
    (void)tt_number_short(at->a, a);
    (void)tt_number_short(at->b, b);
    const char *off =
        has_floor ? tt_answers_text(all, ", off by %s where rounding explains %s",
                                    percent_text(all, at->deviation), percent_text(all, at->floor))
                  : "";
    return tt_answers_text(all, "there %s is %s against %s%s",
                           is_shape ? "shape" : tt_field_name(at->field), is_shape ? s->shapes[0] : a,
                           is_shape ? s->shapes[1] : b, off);
}

static bool has_ranks(const tt_run *run)
{
    return run->count > 0 && run->taps[0]->rank != run->taps[run->count - 1]->rank;
}

/* Does a run hold sketches of tokens? */
static bool has_tokens(const tt_run *run)
{
    static const char tokens[] = "tensortap/tokens/";
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        if (strncmp(tt_run_site_name(run, site), tokens, sizeof tokens - 1) == 0)
            return true;
    return false;
}

static void add_first(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff *diff)
{
    tt_answers *all = &diff->answers;
    const tt_diff_site *s = &diff->sites[diff->first];
    tt_answer found = TT_ANSWER(DIVERGENCE, WARNING, .rule = "differs");
    bool is_ranked = has_ranks(a) || has_ranks(b);
    tt_answers_set_site(all, &found, s->name, tt_run_find(a, s->name));
    tt_answers_set_ranks(all, &found, &s->rank, is_ranked);
    tt_answers_set_code(all, &found, a);
    found.first_step = found.last_step = s->first.step;
    found.call = s->first.call;
    found.sentence =
        tt_answers_text(all, "they diverge at step %" PRId64 " in %s%s", s->first.step, s->name,
                        is_ranked ? tt_answers_text(all, ", rank %d", (int)s->rank) : "");
    found.detail = compare_values(all, s, options->has_tolerance);
    tt_answer_number(&found, "a", s->first.a);
    tt_answer_number(&found, "b", s->first.b);
    tt_answer_number(&found, "deviation", s->first.deviation);
    tt_answer_number(&found, "floor", s->first.floor);
    const char *path_a = tt_answers_run(all, a, options->paths[0]),
               *path_b = tt_answers_run(all, b, options->paths[1]);
    if (has_tokens(a) && has_tokens(b)) /* a trainer and an engine differ in shape everywhere */
        tt_answers_next(all, &found, "tensortap diff --align tokens %s %s", path_a, path_b);
    tt_answers_next(all, &found, "tensortap report %s %s", path_a, path_b);
    tt_answers_next(all, &found, "tensortap stats %s %s --step %" PRId64 ":%" PRId64, path_a,
                    tt_answers_word(all, s->name), s->first.step, s->first.step);
    tt_answers_put(all, &found);
}

/* "12 parameters are equal in every bit, 3 are not from step 4 on"; NULL: there were no digests for that. */
static const char *compare_bits(tt_answers *all, const tt_diff *diff)
{
    int64_t equal = 0, other = 0;
    const tt_diff_site *first = NULL;
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        equal += s->bits > 0 && s->other_bits < 0;
        other += s->bits > 0 && s->other_bits >= 0;
        if (s->bits > 0 && s->other_bits >= 0 && (first == NULL || s->other_bits < first->other_bits))
            first = s;
    }
    if (equal + other == 0)
        return NULL;
    const char *those = tt_answers_text(all, "%" PRId64 " parameter%s %s equal in every bit", equal,
                                        equal == 1 ? "" : "s", equal == 1 ? "is" : "are");
    return first == NULL
               ? those
               : tt_answers_text(all, "%s, %" PRId64 " %s not, from step %" PRId64 " on (%s)", those,
                                 other, other == 1 ? "is" : "are", first->other_bits, first->name);
}

tt_status tt_diff_conclude(tt_run *a, tt_run *b, const tt_diff_options *options, tt_diff *diff)
{
    int64_t points = 0, alone = 0;
    for (size_t i = 0; i < diff->count; i++) {
        const tt_diff_site *s = &diff->sites[i];
        points += s->points;
        alone += s->points == 0 ? s->only_a + s->only_b : 0;
    }
    if (points == 0)
        tt_answers_put(
            &diff->answers,
            &TT_ANSWER(DIVERGENCE, NOTE, .rule = "nothing to compare",
                       .sentence =
                           "nothing to compare: no site has points of the same steps in both runs"));
    else if (diff->verdict == TT_DIFF_DIFFERS && diff->first >= 0)
        add_first(a, b, options, diff);
    else
        tt_answers_put(&diff->answers,
                       &TT_ANSWER(DIVERGENCE, FINE, .rule = tt_verdict_text(diff->verdict),
                                  .detail = compare_bits(&diff->answers, diff),
                                  .sentence = diff->verdict == TT_DIFF_SAME && alone > 0
                                                  ? "identical in the sites that both have"
                                              : diff->verdict == TT_DIFF_SAME ? "identical"
                                              : options->has_tolerance
                                                  ? "within the tolerance"
                                                  : "within noise: no more than rounding"));
    return diff->answers.st;
}
