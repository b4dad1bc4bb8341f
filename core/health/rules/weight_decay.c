/* weight_decay.c -- a weight decay that outweighs what the gradients do.
 *
 * Weights that shrink step by step, as the decay alone would make them, are forgotten faster than they learn.  Weights of
 * a long training come to rest where decay and gradients balance; so both are asked for: a decay that is
 * large for a step, and weights that have shrunk.  Weights in front of a norm may shrink without harm: a loss that has
 * fallen says that the model learns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TT_RULE(
    weight_decay, "weight-decay", WARNING, LIKELY,
    /* looks at */ "parameter/* and an optimizer's settings",
    "The weight decay outweighs the gradients: weights shrink towards zero.",
    /* what to do */ "use a smaller weight_decay: 0.01 to 0.1 for AdamW, 1e-4 to 5e-4 for SGD are usual",
    /* hides */ "gradient-vanishing,loss-stuck,growth,update-ratio")

static const double LARGE = 1e-3;   /* of a weight that a step takes away */
static const double EXTREME = 0.03; /* the same: nobody wants to halve a weight every 23 steps */
static const double BEYOND = 3;     /* times the gradient, where the two are added */
static const double SHRUNK = 0.5;   /* of what a weight was at first */
static const double FALLEN = 0.5;   /* of what a loss was at first */
enum { ENOUGH = 20, FEWEST = 2 };   /* steps, weights */

/* The largest weight decay of all groups of all optimizers; 0: none is known. */
static double largest_decay(const tt_history *h)
{
    double most = 0;
    for (int32_t i = 0; i < h->setting_count; i++) {
        const char *key = h->settings[i].key, *slash = strrchr(key, '/');
        if (slash != NULL && strcmp(slash, "/weight_decay") == 0 && strncmp(key, "optimizer", 9) == 0)
            most = fmax(most, strtod(h->settings[i].value, NULL));
    }
    return isfinite(most) ? most : 0;
}

/* The most that the decay of one group takes away in a step, by the group's own rate; *decay: of that group. */
static double largest_share(const tt_history *h, double *decay)
{
    double most = 0;
    for (int32_t i = 0; i < h->setting_count; i++) {
        char key[64];
        const char *slash = strrchr(h->settings[i].key, '/');
        if (slash == NULL || strcmp(slash, "/weight_decay") != 0)
            continue;
        (void)snprintf(key, sizeof key, "%.*s/lr", (int)(slash - h->settings[i].key), h->settings[i].key);
        const char *rate = tt_history_setting(h, key);
        double by = strtod(h->settings[i].value, NULL);
        double share = rate != NULL ? by * strtod(rate, NULL) : 0;
        if (share > most) {
            most = share;
            *decay = by;
        }
    }
    return most;
}

static bool has_learned(tt_case *c)
{
    TT_EACH_LOSS(c, loss)
        if (loss->early > 0 && loss->level < FALLEN * loss->early)
            return true;
    return false;
}

static void find(tt_case *c)
{
    double decay = largest_decay(c->history), shrunk = 0, rate = 0, extreme = 0;
    bool is_extreme = largest_share(c->history, &extreme) >= EXTREME;
    long long judged = 0;
    for (const tt_course *at = NULL; (at = tt_case_next(c, TT_COURSE_RATE, at)) != NULL;)
        rate = fmax(rate, at->level);
    c->has_data = decay > 0 && tt_case_next(c, TT_COURSE_PARAMETER, NULL) != NULL;
    TT_EACH(c, weight, PARAMETER) {
        const tt_course *gradient = tt_history_of(c->history, weight, TT_COURSE_GRADIENT);
        if (!tt_course_is_weight(weight) || !tt_case_is_optimized(c, weight) || weight->values < ENOUGH ||
            gradient == NULL || !(weight->first > 0))
            continue;
        judged++;
        bool is_taken = rate * decay >= LARGE || decay * weight->first >= BEYOND * gradient->first;
        if (decay > 0 && is_taken && weight->latest <= SHRUNK * weight->first) {
            tt_case_add(c, weight);
            shrunk = fmax(shrunk, weight->latest / weight->first);
        }
    }
    if (is_extreme) /* of one group, perhaps: the others may learn */
        decay = extreme;
    else if ((long long)c->suspect_count < FEWEST || (long long)c->suspect_count * 2 < judged ||
             has_learned(c))
        c->suspect_count = 0;
    if (c->suspect_count == 0)
        return;
    tt_case_number(c, "weight_decay", decay);
    tt_case_number(c, "learning_rate", rate);
    tt_case_number(c, "left", shrunk);
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: a weight decay of %s makes the weights shrink, to at most %s%% of what they were",
                tt_case_subject(c), tt_case_text(c, decay), tt_case_text(c, shrunk * 100));
}
