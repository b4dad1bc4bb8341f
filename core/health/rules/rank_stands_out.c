/* rank_stands_out.c -- a rank whose loss is unlike that of the others.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <math.h>
#include <stdlib.h>

TT_RULE(rank_stands_out, "rank-stands-out", WARNING, LIKELY, /* looks at */ "a loss of several ranks",
        "The loss of one rank is several times that of the others.",
        /* what to do */ "look at the data of that rank: its part of the data set, its sampler",
        /* hides */ NULL)

static const double FAR = 5; /* times the loss of the others */
enum { FEWEST = 3 };         /* ranks: of two nobody can say which is right */

/* The i-th of the losses of all ranks, if it is this one; NULL: another. */
static const tt_course *loss_of(const tt_case *c, int32_t i, const tt_course *loss, int32_t *rank)
{
    const tt_evidence *e = c->evidence;
    if (!tt_case_is_joined(c)) {
        *rank = e->histories[i].rank;
        return tt_history_find(&e->histories[i], TT_COURSE_LOSS, loss->tail, "");
    }
    *rank = e->losses[i].rank;
    return e->losses[i].course.site == loss->site ? &e->losses[i].course : NULL;
}

static void find(tt_case *c)
{
    c->has_data = true;
    const tt_evidence *e = c->evidence;
    if (!tt_case_is_first(c) || e->rank_count < FEWEST)
        return;
    double *levels = calloc((size_t)e->rank_count, sizeof *levels); /* owned */
    double *sorted = calloc((size_t)e->rank_count, sizeof *sorted); /* owned */
    int32_t *ranks = calloc((size_t)e->rank_count, sizeof *ranks);  /* owned */
    c->st = levels != NULL && sorted != NULL && ranks != NULL ? c->st : TT_ENOMEM;
    TT_EACH_LOSS(c, course) {
        int32_t count = 0;
        int32_t losses = tt_case_is_joined(c) ? e->loss_count : e->history_count;
        for (int32_t i = 0; c->st == TT_OK && i < losses && count < e->rank_count; i++) {
            int32_t rank;
            const tt_course *twin = loss_of(c, i, course, &rank);
            if (!tt_course_is_warm(twin))
                continue;
            ranks[count] = rank;
            levels[count] = sorted[count] = tt_course_median(twin);
            count++;
        }
        if (count < FEWEST)
            continue;
        double typical = tt_median(sorted, (size_t)count);
        for (int32_t i = 0; i < count; i++) {
            bool is_far = fabs(levels[i]) > FAR * fabs(typical) || FAR * fabs(levels[i]) < fabs(typical);
            if (!is_far || typical == 0)
                continue;
            tt_case_add(c, course);
            tt_case_ranks(c, &ranks[i], 1);
            tt_case_number(c, "rank", ranks[i]);
            tt_case_number(c, "loss", levels[i]);
            tt_case_number(c, "typical", typical);
            tt_case_say(c, TT_SEVERITY_WARNING, "%s of rank %d is about %s, that of a typical rank %s",
                        course->name, (int)ranks[i], tt_case_text(c, levels[i]),
                        tt_case_text(c, typical));
        }
    }
    free(levels);
    free(sorted);
    free(ranks);
}
