/* modes.c -- which modules of a model differ between training and evaluation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <string.h>

/* Is a module part of the model?  Further models of a run have a prefix: "Critic:fc". */
static bool is_part(const char *path, const char *root)
{
    const char *colon = strchr(root, ':');
    size_t len = colon != NULL ? (size_t)(colon - root) + 1 : 0;
    if (len == 0)
        return strchr(path, ':') == NULL;
    return strncmp(path, root, len) == 0;
}

/* What behaves differently in training and in evaluation. */
typedef struct kinds {
    long long dropouts, norms;
} kinds;

static void count(kinds *all, const char *class_name)
{
    all->dropouts += tt_glob_match("*Dropout*", class_name);
    all->norms += tt_glob_match("*BatchNorm*", class_name);
}

static const char *text_of(tt_case *c, kinds all)
{
    if (all.dropouts > 0 && all.norms > 0)
        return tt_case_join(c, "it has dropout and %lld batch norm%s", all.norms,
                            all.norms == 1 ? "" : "s");
    return all.dropouts > 0 ? "it has dropout" : all.norms > 0 ? "it has batch norm" : NULL;
}

const char *tt_modes_that_matter(tt_case *c, const char *root)
{
    kinds all = { 0 };
    const tt_history *h = c->history;
    for (int32_t i = 0; i < tt_sites_count(h->names); i++) {
        const char *class_name = (size_t)i < h->subject_cap ? h->subjects[i].class_name : NULL;
        if (class_name != NULL && is_part(tt_sites_row(h->names, i)->name, root))
            count(&all, class_name);
    }
    return text_of(c, all);
}

/* ---- parts of a model ---------------------------------------------------------- */

enum { ENOUGH = 5, ENOUGH_EVALUATIONS = 2 }; /* steps */

/* Was this module often enough in another mode than its model? */
static bool is_apart(const tt_course *mode, bool in_training)
{
    return in_training ? mode->points - mode->zero_points >= ENOUGH_EVALUATIONS
                       : mode->zero_points >= ENOUGH;
}

static bool is_inside(const char *path, const tt_course *part)
{
    size_t len = strlen(part->tail);
    return strncmp(path, part->tail, len) == 0 && path[len] == '.';
}

/* Is it inside of a part that was in another mode, too? */
static bool has_part_around(const tt_case *c, const tt_course *part, bool in_training)
{
    char path[TT_SITE_NAME_MAX];
    size_t len = strlen(part->tail);
    memcpy(path, part->tail, len < sizeof path ? len + 1 : 0);
    for (char *dot; len < sizeof path && (dot = strrchr(path, '.')) != NULL;) {
        *dot = '\0';
        const tt_course *around = tt_history_find(c->history, TT_COURSE_MODE, path, "");
        if (around != NULL && is_apart(around, in_training))
            return true;
    }
    return false;
}

/* Does an optimizer update something in it?  A frozen part may well be in evaluation mode. */
static bool is_trained(tt_case *c, const tt_course *part)
{
    TT_EACH(c, parameter, PARAMETER)
        if (is_inside(parameter->tail, part) && tt_case_is_optimized(c, parameter))
            return true;
    return false;
}

/* A norm or dropout whose mode was set alone is meant so: frozen norms, dropout that estimates
 * uncertainty.  A part that holds other modules too was forgotten. */
void tt_modes_find_parts(tt_case *c, bool in_training)
{
    kinds all = { 0 };
    TT_EACH(c, part, MODE) {
        kinds inside = { 0 };
        if (!is_apart(part, in_training) || has_part_around(c, part, in_training))
            continue;
        TT_EACH(c, other, MODE)
            if (is_inside(other->tail, part) && is_apart(other, in_training) && other->class_name != NULL)
                count(&inside, other->class_name);
        if (inside.dropouts + inside.norms == 0 || (!in_training && !is_trained(c, part)))
            continue;
        all.dropouts += inside.dropouts;
        all.norms += inside.norms;
        tt_case_add(c, part);
    }
    tt_case_number(c, "modules", (double)c->suspect_count);
    tt_case_say(c, TT_SEVERITY_WARNING, "%s: in %s mode while the model is %s, from step %lld on: %s",
                tt_case_place(c), in_training ? "training" : "evaluation",
                in_training ? "evaluated" : "trained", (long long)c->found.first_step, text_of(c, all));
}
