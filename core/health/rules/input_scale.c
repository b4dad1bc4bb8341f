/* input_scale.c -- a model's inputs that are far from normalised.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <string.h>

TT_RULE(input_scale, "input-scale", WARNING, LIKELY, /* looks at */ "tensortap/batch/*",
        "The inputs of the model are far from a mean of 0 and a standard deviation of 1.",
        /* what to do */ "subtract the mean of the training data and divide by its standard deviation",
        /* hides */ NULL)

static const double FAR = 10; /* times 1; pictures from 0 to 255 have a root mean square of about 140 */

static void find(tt_case *c)
{
    TT_EACH(c, course, BATCH) {
        if (course->points < 3 || course->dtype < 0 ||
            tt_dtype_kind((tt_dtype)course->dtype) != TT_KIND_FLOAT)
            continue;
        double size = course->level, mean = course->mean;
        double spread = sqrt(size * size > mean * mean ? size * size - mean * mean : 0);
        if (size < FAR && !(fabs(mean) > FAR * spread && fabs(mean) > 1))
            continue;
        tt_case_add(c, course);
        tt_case_number(c, "mean", mean);
        tt_case_number(c, "std", spread);
        tt_case_say(c, TT_SEVERITY_WARNING,
                    "the inputs of %s are far from normalised: mean %s, standard deviation %s",
                    strcmp(course->tail, "(root)") == 0 ? "the model" : course->tail,
                    tt_case_text(c, mean), tt_case_text(c, spread));
    }
}
