/* mostly_zero.c -- a dropout or a mask that leaves next to nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <stdlib.h>
#include <string.h>

TT_RULE(
    mostly_zero, "mostly-zero", WARNING, LIKELY, /* looks at */ "activation/*",
    "A dropout, a mask or a layer sets nearly all of its output to zero.",
    /* what to do */
    "look at the probability of the dropout, which is that of zero, and at whether the mask is inverted",
    /* hides */ "dead-units,gradient-vanishing,loss-stuck")

static const double LARGE_P = 0.85;    /* of a dropout */
static const double NEARLY_ALL = 0.97; /* of the elements of anything else */
enum { ENOUGH = 10, FEWEST = 64 };     /* points, elements */
/* Activation functions are zero where units are dead, which is for dead-units. */
static const char SPARSE[] = "*LU*,*Relu*,*Activation*,*Sigmoid*,*Mish*,*Softplus*,*Threshold*,*shrink*,"
                             "*Embedding*,*Sparse*,*Router*,*Gate,*Pool*,*Identity*";

/* The probability in "Dropout(p=0.9, inplace=False)" of a module; -1: not known. */
static double probability_of(const tt_history *h, const char *path)
{
    for (int32_t i = 0; i < h->setting_count; i++) {
        const tt_setting *one = &h->settings[i];
        const char *p = strstr(one->value, "(p=");
        if (p != NULL && strncmp(one->key, "module/", 7) == 0 && tt_glob_match(one->key + 7, path))
            return strtod(p + 3, NULL);
    }
    return -1;
}

static void find(tt_case *c)
{
    TT_EACH(c, course, ACTIVATION) {
        bool is_dropout = tt_course_is_of(course, "*Dropout*");
        double p = is_dropout ? probability_of(c->history, course->tail) : -1;
        if (course->points < ENOUGH || course->elements < FEWEST || course->class_name == NULL ||
            course->zero_run == course->points || tt_course_is_of(course, SPARSE))
            continue;
        bool is_found =
            is_dropout ? p >= LARGE_P && course->zeros > 0.9 * p : course->zeros >= NEARLY_ALL;
        if (!is_found)
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "zeros", course->zeros);
        if (is_dropout) {
            c->remedy = "p is the probability of zero: use 0.1 to 0.5";
            tt_case_number(c, "p", p);
            tt_case_say(c, TT_SEVERITY_WARNING,
                        "%s is a dropout with p = %s: it sets %s%% of its output to zero", course->tail,
                        tt_case_text(c, p), tt_case_text(c, course->zeros * 100));
        } else {
            tt_case_say(c, TT_SEVERITY_WARNING, "%s: %s%% of its output is zero", tt_case_subject(c),
                        tt_case_text(c, course->zeros * 100));
            return; /* what follows it may be, too */
        }
    }
}
