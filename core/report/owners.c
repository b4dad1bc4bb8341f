/* owners.c -- what is known of the modules of a run: class, and names of parameters.
 *
 * Exists because layers are folded where they are alike, and a Linear puts out what a
 * ReLU of the same width puts out: type and shape do not tell them apart.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/run_tree.h"
#include "store/run.h"

#include <stdlib.h>
#include <string.h>

enum { AFTER_ROOT = 6 };                                    /* length of "(root)" */
static const uint64_t EMPTY = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

static uint64_t hash_more(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_of(const char *text, size_t len)
{
    return hash_more(EMPTY, text, len);
}

static int by_module(const void *a, const void *b)
{
    const tt_owned *x = a, *y = b;
    return (x->module > y->module) - (x->module < y->module);
}

static const tt_owned *find(const tt_owners *owners, uint64_t module)
{
    const tt_owned key = { .module = module };
    return owners->count > 0 ? bsearch(&key, owners->rows, owners->count, sizeof key, by_module) : NULL;
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
    size_t modules = 0, count = 0, kept = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        modules += (size_t)tt_run_module_count(run, f);
    tt_owned *rows = calloc((size_t)sites + modules + 1, sizeof *rows);
    if (rows == NULL)
        return TT_ENOMEM;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_module module;
        for (int32_t i = 0; tt_run_module(run, f, i, &module) == TT_OK; i++)
            rows[count++] = (tt_owned){ .module = hash_of(module.path, strlen(module.path)),
                                        .class_name = module.class_name };
    }
    for (int32_t site = 0; site < sites; site++) {
        const char *name = tt_run_site_name(run, site);
        if (strncmp(name, kind, strlen(kind)) != 0)
            continue;
        name += strlen(kind);
        const char *dot = strrchr(name, '.');
        const char *own = dot != NULL ? dot + 1 : name;
        rows[count++] = (tt_owned){ .module = hash_of(name, dot != NULL ? (size_t)(dot - name) : 0),
                                    .names = hash_of(own, strlen(own)) };
    }
    qsort(rows, count, sizeof *rows, by_module);
    for (size_t i = 0; i < count; i++) /* a sum: whatever the order */
        if (kept > 0 && rows[kept - 1].module == rows[i].module) {
            rows[kept - 1].names += rows[i].names;
            if (rows[i].class_name != NULL)
                rows[kept - 1].class_name = rows[i].class_name;
        } else {
            rows[kept++] = rows[i];
        }
    *out = (tt_owners){ rows, kept, modules > 0 };
    return TT_OK;
}

static bool is_root(const char *label) /* "(root)", or "name:(root)" of a model with a name */
{
    size_t len = strlen(label);
    return len >= AFTER_ROOT && strcmp(label + len - AFTER_ROOT, "(root)") == 0;
}

void tt_owners_apply(const tt_owners *owners, tt_name_tree *tree)
{
    for (uint32_t i = 1; i < tree->count; i++) { /* parents first */
        tt_name_node *node = &tree->nodes[i];
        const tt_name_node *above = &tree->nodes[node->parent];
        size_t len = strlen(node->label);
        if (node->parent == 0) {
            node->path = strcmp(tt_name_tree_joint(node->label), ".") == 0 ? EMPTY : 0;
            continue;
        }
        if (above->path == 0)
            continue;
        bool is_top = above->parent == 0;
        node->path = hash_more(is_top ? EMPTY : hash_more(above->path, ".", 1), node->label, len);
        const tt_owned *found = find(owners, node->path);
        node->class_name = found != NULL ? found->class_name : NULL;
        const tt_name_node *kind = above;
        while (kind->parent != 0)
            kind = &tree->nodes[kind->parent];
        bool has_outputs = strcmp(kind->label, "parameter") != 0 && strcmp(kind->label, "gradient") != 0;
        node->is_output = has_outputs && !is_top && node->class_name == NULL &&
                          (owners->has_classes || above->is_output || is_root(above->label));
    }
}

uint64_t tt_owners_names(const tt_owners *owners, const char *site_name)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "input/" };
    for (size_t i = 0; owners->count > 0 && i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(site_name, kinds[i], len) != 0)
            continue;
        const tt_owned *found = find(owners, hash_of(site_name + len, strlen(site_name + len)));
        return found != NULL ? found->names : 0;
    }
    return 0;
}
