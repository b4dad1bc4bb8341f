/* norm_of_one.c -- a norm that normalises single values.
 *
 * What is left of one value without its mean is 0: the norm returns its bias whatever it is given.  Then the gradient of
 * its weight is 0 but for rounding, and that of its bias is not.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <stdio.h>
#include <string.h>

TT_RULE(norm_of_one, "norm-of-one", WARNING, LIKELY, /* looks at */ "gradient/*",
        "A norm is given one value for each mean, so that it returns its bias whatever its input is.",
        /* what to do */
        "normalise over more values: larger batches (drop_last=True), fewer groups, another dimension; "
        "look at what comes before it if its input is constant",
        /* hides */ "loss-stuck")

static const double NOTHING = 1e-4; /* of the gradient of the bias */
enum { ENOUGH = 8 };                /* points */

bool tt_norm_is_of_one(const tt_case *c, const tt_course *weight)
{
    const tt_course *own = tt_history_of(c->history, weight, TT_COURSE_GRADIENT);
    const char *dot = strrchr(weight->tail, '.');
    char name[TT_SITE_NAME_MAX];
    if (dot == NULL || strcmp(dot, ".weight") != 0 || own == NULL || own->values < ENOUGH)
        return false;
    int len = snprintf(name, sizeof name, "%.*s", (int)(dot - weight->tail), weight->tail);
    const char *class_name = tt_history_class(c->history, name);
    const tt_course *bias = len > 0 && (size_t)len < sizeof name
                                ? tt_history_find(c->history, TT_COURSE_GRADIENT, name, ".bias")
                                : NULL;
    return class_name != NULL && tt_glob_match("*Norm*", class_name) && bias != NULL &&
           bias->values >= ENOUGH && bias->early > 0 && own->early <= NOTHING * bias->early &&
           own->level <= NOTHING * bias->level;
}

static void find(tt_case *c)
{
    const char *stopped = c->history->stopped;
    const char *why = stopped != NULL ? strstr(stopped, "Expected more than 1 value per channel") : NULL;
    if (why != NULL) {
        TT_EACH(c, course, BATCH)
            tt_case_add(c, course);
        c->is_of_run = true;
        tt_case_steps(c, c->history->last_step, c->history->last_step);
        c->remedy =
            "a batch of one sample is the rest of a data set: use drop_last=True, or a batch size "
            "that divides it";
        tt_case_say(c, TT_SEVERITY_ERROR,
                    "a batch norm got one value for each channel in training, and ended the program");
    }
    TT_EACH(c, course, PARAMETER)
        if (tt_norm_is_of_one(c, course))
            tt_case_add(c, course);
    if (c->suspect_count > 0)
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "%s: what it normalises is the same everywhere, as if each mean were of one value: "
                    "the norm returns "
                    "its bias",
                    tt_case_subject(c));
}
