/* dropout.c -- ranks with rows of their own that drop the same units.
 *
 * Exists because no tensor of one rank shows it.  Each rank records a hash of the state of its random generators
 * at its first step; placements say which ranks hold the same part of what a dropout returns.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/dropout.h"

#include "store/placement.h"

#include <stdlib.h>
#include <string.h>

enum { MODULES_MOST = 4 }; /* that are looked at: others of the model are alike */

/* What one rank has of the output of a dropout. */
typedef struct holder {
    uint64_t class; /* equal: they hold the same part */
    double state;   /* of its random generators */
} holder;

/* "module/blocks.*.drop" is "Dropout(p=0.1, inplace=False)": does it drop anything? */
static bool drops(const tt_run *run, const char *path)
{
    static const char prefix[] = "module/";
    tt_setting setting;
    for (int32_t i = 0; tt_run_setting(run, 0, i, &setting) == TT_OK; i++) {
        const char *p = strstr(setting.value, "p=");
        if (strncmp(setting.key, prefix, strlen(prefix)) == 0 &&
            tt_glob_match(setting.key + strlen(prefix), path) && p != NULL)
            return strtod(p + 2, NULL) > 0;
    }
    return false;
}

/* Where the output of a module belongs in one file, and the state of its generators. */
static bool read_holder(tt_run *run, int32_t f, int32_t site, int32_t states, holder *out)
{
    tt_point state;
    bool is_known = true;
    if (run->taps[f]->child != 0 || tt_run_points(run, f, site) == 0 ||
        tt_run_points(run, f, states) == 0 || tt_run_point(run, f, states, 0, &state, NULL) < 0)
        return false;
    const tt_placement *p = tt_run_placement(run, f, site, state.step);
    if (p == NULL || p->source == TT_PLACED_BY_DTENSOR) /* torch sees to its masks */
        return false;
    *out = (holder){ .class = tt_placement_class(p, tt_run_known_mesh(run, f, p->mesh), &is_known),
                     .state = state.scalar };
    return is_known && out->class != 0;
}

/* Do ranks that have other parts have one state? */
static bool is_alike(const holder *held, int32_t count)
{
    bool has_parts = false;
    for (int32_t i = 1; i < count; i++) {
        if (held[i].state != held[0].state)
            return false;
        has_parts |= held[i].class != held[0].class;
    }
    return has_parts;
}

tt_status tt_dropout_note(tt_run *run, tt_answers *notes)
{
    int32_t states = tt_run_find(run, "tensortap/random_state"); /* runs/steps.py */
    if (states < 0 || run->count < 2)
        return TT_OK;
    holder *held = malloc((size_t)run->count * sizeof *held); /* owned */
    if (held == NULL)
        return TT_ENOMEM;
    const char *alike = NULL; /* the path of one */
    tt_module module;
    int32_t count = 0;
    for (int32_t i = 0, seen = 0;
         alike == NULL && seen < MODULES_MOST && tt_run_module(run, 0, i, &module) == TT_OK; i++) {
        if (strstr(module.class_name, "Dropout") == NULL || !drops(run, module.path))
            continue;
        int32_t site = tt_run_find(run, tt_answers_text(notes, "activation/%s", module.path));
        count = 0;
        for (int32_t f = 0; site >= 0 && f < run->count; f++)
            count += read_holder(run, f, site, states, &held[count]);
        alike = is_alike(held, count) ? module.path : NULL;
        seen++;
    }
    free(held);
    if (alike != NULL) {
        tt_answer note = TT_ANSWER(NOTE, NOTE, .rule = "dropout-seeds");
        note.sentence = tt_answers_text(
            notes,
            "%d ranks had the same random state at the first step: dropout (%s) probably drops the same "
            "places on each, although each has other rows",
            (int)count, alike);
        note.remedy =
            "for masks of its own on each rank: torch.manual_seed(seed + rank) once the model is there";
        tt_answers_put(notes, &note);
    }
    return notes->st;
}
