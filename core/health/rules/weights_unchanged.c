/* weights_unchanged.c -- weights that an optimizer holds and does not change.
 *
 * In bfloat16 and float16 an update that is small beside the weight is rounded away, element by element: the
 * large elements stay, the small ones learn, and the sum of the weight changes all the same.  So the recorder
 * counts the elements of a sample that a step left as they were.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(weights_unchanged, "weights-unchanged", WARNING, CERTAIN,
        /* looks at */ "parameter/* and tensortap/state/*",
        "An optimizer holds weights that do not change, or whose updates are rounded away.",
        /* what to do */
        "set requires_grad=True if it is to learn, or leave it out of the optimizer",
        /* hides */ "loss-stuck")

static const char STILL[] =
    "look at whether optimizer.step() runs, whether something writes the old weights back, and for a "
    "learning rate that is too small for them";
static const char ROUNDED[] =
    "keep float32 weights (torch.autocast computes in bfloat16) or a float32 copy of them in the "
    "optimizer; else round stochastically, or use a larger learning rate";

enum { ENOUGH = 8, ENOUGH_OF_HALF = 16 }; /* steps */
static const double MOST = 0.9;           /* of the elements with a gradient */

static bool is_half(const tt_course *course)
{
    return course->dtype == TT_BF16 || course->dtype == TT_F16;
}

/* The share of the elements with a gradient that steps leave as they are; 0: not known. */
static double share_rounded(const tt_case *c, const tt_course *course, const tt_course *gradient)
{
    const tt_course *update = tt_history_of(c->history, course, TT_COURSE_UPDATE);
    double without = gradient->zeros; /* their gradient is 0: they may well stay */
    if (course->same_run >= ENOUGH_OF_HALF && !tt_course_is_bias(course))
        return 1;
    if (update == NULL || update->points < ENOUGH_OF_HALF || without > 0.5 || update->zeros <= without)
        return 0;
    return (update->zeros - without) / (1 - without);
}

typedef enum why { FROZEN, STAYS, LOST, WHYS } why;

static bool is_so(tt_case *c, const tt_course *course, why cause, bool is_settled, double *share)
{
    const tt_course *state = tt_history_of(c->history, course, TT_COURSE_STATE);
    if (tt_norm_is_of_one(c, course) || tt_factor_is_zero(c, course)) /* rules of their own */
        return false;
    if (state == NULL || ((int)state->latest & TT_STATE_IS_OPTIMIZED) == 0 || course->elements == 0)
        return false;
    bool is_frozen = ((int)state->latest & TT_STATE_REQUIRES_GRAD) == 0;
    if (is_frozen)
        return cause == FROZEN && course->same_run >= ENOUGH;
    /* An expert of a mixture may be idle for a while; whose gradient always arrives is not. */
    const tt_course *gradient = tt_history_of(c->history, course, TT_COURSE_GRADIENT);
    if (gradient == NULL || gradient->points + 2 < course->points || gradient->zero_run > 0)
        return false;
    if (!is_half(course)) /* a bias before a batch norm has almost no gradient */
        return cause == STAYS && course->same_run >= ENOUGH && tt_course_is_weight(course);
    double rounded = cause == LOST && is_settled ? share_rounded(c, course, gradient) : 0;
    *share = rounded > *share ? rounded : *share;
    return rounded >= MOST;
}

static void find_some(tt_case *c, why cause)
{
    int64_t since = INT64_MAX;
    double share = 0;
    bool is_settled = tt_case_is_rate_settled(c);
    TT_EACH(c, course, PARAMETER) {
        if (!is_so(c, course, cause, is_settled, &share))
            continue;
        int64_t from = course->same_from;
        since = from < since ? from : since;
        tt_case_add(c, course);
    }
    if (c->suspect_count == 0)
        return;
    const tt_course *first = c->suspects[0];
    const char *them = c->suspect_count == 1 ? "it" : "them";
    tt_case_number(c, "parameters", (double)c->suspect_count);
    tt_case_steps(c, since, c->found.last_step);
    if (cause == FROZEN) {
        tt_case_say(c, TT_SEVERITY_WARNING, "%s: requires_grad=False, although an optimizer holds %s",
                    tt_case_subject(c), them);
    } else if (cause == STAYS) {
        c->remedy = STILL;
        tt_case_say(c, TT_SEVERITY_WARNING, "%s: unchanged since step %lld, although gradients arrive",
                    tt_case_subject(c), (long long)since);
    } else {
        tt_case_number(c, "unchanged", share);
        c->remedy = ROUNDED;
        c->likelihood = TT_LIKELIHOOD_LIKELY;
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s: updates are rounded away: a step leaves %s%.0f%% of the elements unchanged, "
                    "because %s has too few digits for so small a change",
                    tt_case_subject(c), c->suspect_count > 1 ? "up to " : "", share * 100,
                    tt_dtype_name((tt_dtype)first->dtype));
    }
}

static void find(tt_case *c)
{
    for (int cause = FROZEN; cause < WHYS; cause++)
        find_some(c, (why)cause);
}
