/* modes.c -- which modules of a model differ between training and evaluation.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/modes.h"

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

const char *tt_modes_that_matter(tt_case *c, const char *root)
{
    long long dropouts = 0, norms = 0;
    const tt_history *h = c->history;
    for (int32_t i = 0; i < tt_sites_count(h->names); i++) {
        const char *class_name = (size_t)i < h->subject_cap ? h->subjects[i].class_name : NULL;
        if (class_name == NULL || !is_part(tt_sites_row(h->names, i)->name, root))
            continue;
        dropouts += tt_glob_match("*Dropout*", class_name);
        norms += tt_glob_match("*BatchNorm*", class_name);
    }
    if (dropouts > 0 && norms > 0)
        return tt_case_join(c, "it has dropout and %lld batch norms", norms);
    return dropouts > 0 ? "it has dropout" : norms > 0 ? "it has batch norm" : NULL;
}
