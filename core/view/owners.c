/* owners.c -- which modules of a run own parameters, and of what names.
 *
 * Exists because layers are folded where they are alike, and a Linear puts out what a
 * ReLU of the same width puts out: type and shape do not tell them apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "view/run_tree.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static int by_module(const void *a, const void *b)
{
    const tt_owned *x = a, *y = b;
    return (x->module > y->module) - (x->module < y->module);
}

void tt_owners_free(tt_owners *owners)
{
    free(owners->rows);
    *owners = (tt_owners){ 0 };
}

tt_status tt_owners_find(const tt_run *run, tt_owners *out)
{
    static const char kind[] = "parameter/";
    int32_t sites = tt_run_site_count(run);
    tt_owned *rows = calloc((size_t)sites + 1, sizeof *rows);
    size_t count = 0, kept = 0;
    if (rows == NULL)
        return TT_ENOMEM;
    for (int32_t site = 0; site < sites; site++) {
        const char *name = tt_run_site_name(run, site);
        if (strncmp(name, kind, strlen(kind)) != 0)
            continue;
        name += strlen(kind);
        const char *dot = strrchr(name, '.');
        const char *own = dot != NULL ? dot + 1 : name;
        rows[count++] = (tt_owned){ hash_of(name, dot != NULL ? (size_t)(dot - name) : 0),
                                    hash_of(own, strlen(own)) };
    }
    qsort(rows, count, sizeof *rows, by_module);
    for (size_t i = 0; i < count; i++) /* a sum: whatever the order */
        if (kept > 0 && rows[kept - 1].module == rows[i].module)
            rows[kept - 1].names += rows[i].names;
        else
            rows[kept++] = rows[i];
    *out = (tt_owners){ rows, kept };
    return TT_OK;
}

uint64_t tt_owners_names(const tt_owners *owners, const char *site_name)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "input/" };
    for (size_t i = 0; owners->count > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(site_name, kinds[i], len) != 0)
            continue;
        const tt_owned key = { .module = hash_of(site_name + len, strlen(site_name + len)) };
        const tt_owned *found = bsearch(&key, owners->rows, owners->count, sizeof key, by_module);
        return found != NULL ? found->names : 0;
    }
    return 0;
}
