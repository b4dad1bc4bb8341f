/* name_tree.c -- names taken apart into a tree.
 *
 * Exists apart from run_tree.c because this half knows nothing of runs.  Found by
 * hash, because a hostile run may have 200 000 names in one group.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/run_tree.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40 }; /* the rest of a name is one label */

void tt_name_tree_free(tt_name_tree *tree)
{
    free(tree->nodes);
    free(tree->table);
    tt_arena_free(&tree->arena);
    *tree = (tt_name_tree){ 0 };
}

static uint64_t hash_label(uint32_t parent, const char *label, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u ^ parent * UINT64_C(0x9e3779b97f4a7c15); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)label[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static tt_status grow_table(tt_name_tree *tree)
{
    uint32_t cap = tree->table_cap == 0 ? 256 : tree->table_cap * 2;
    uint32_t *table = calloc(cap, sizeof *table);
    if (table == NULL)
        return TT_ENOMEM;
    for (uint32_t i = 1; i < tree->count; i++) {
        const tt_name_node *node = &tree->nodes[i];
        uint64_t at = hash_label(node->parent, node->label, strlen(node->label));
        while (table[at & (cap - 1)] != 0)
            at++;
        table[at & (cap - 1)] = i;
    }
    free(tree->table);
    tree->table = table;
    tree->table_cap = cap;
    return TT_OK;
}

static tt_status grow_nodes(tt_name_tree *tree)
{
    if (tree->count + 1 < tree->cap)
        return TT_OK;
    uint32_t cap = tree->cap == 0 ? 256 : tree->cap * 2;
    tt_name_node *nodes = realloc(tree->nodes, cap * sizeof *nodes);
    if (nodes == NULL)
        return TT_ENOMEM;
    tree->nodes = nodes;
    tree->cap = cap;
    if (tree->count == 0)
        tree->nodes[tree->count++] = (tt_name_node){ .label = "", .site = -1 };
    return TT_OK;
}

static tt_status child_of(tt_name_tree *tree, uint32_t parent, const char *label, size_t len,
                          uint32_t *out)
{
    tt_status st = grow_nodes(tree);
    if (st == TT_OK && tree->count * UINT64_C(2) >= tree->table_cap)
        st = grow_table(tree);
    if (st < 0)
        return st;
    uint64_t at = hash_label(parent, label, len);
    for (uint32_t i; (i = tree->table[at & (tree->table_cap - 1)]) != 0; at++) {
        const tt_name_node *node = &tree->nodes[i];
        if (node->parent == parent && strlen(node->label) == len &&
            memcmp(node->label, label, len) == 0) {
            *out = i;
            return TT_OK;
        }
    }
    const char *copy = tt_arena_text(&tree->arena, label, len);
    if (copy == NULL)
        return TT_ENOMEM;
    uint32_t i = tree->count++;
    tree->nodes[i] = (tt_name_node){ .label = copy, .site = -1, .parent = parent };
    tree->table[at & (tree->table_cap - 1)] = i;
    tt_name_node *above = &tree->nodes[parent];
    if (above->last_child != 0)
        tree->nodes[above->last_child].next = i;
    else
        above->first_child = i;
    above->last_child = i;
    *out = i;
    return TT_OK;
}

static bool names_modules(const char *name)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "gradient/", "input/",
                                         "parameter/" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* Of "line/src/train.py:34:y": where "34:y" begins; NULL: it is no such name. */
static const char *line_part(const char *name)
{
    static const char kind[] = "line/";
    if (strncmp(name, kind, strlen(kind)) != 0)
        return NULL;
    for (const char *at = name + strlen(name); at > name + strlen(kind); at--)
        if (at[-1] == ':' && strspn(at, "0123456789") > 0 && at[strspn(at, "0123456789")] == ':')
            return at;
    return NULL;
}

static tt_status add_line_name(tt_name_tree *tree, const char *name, const char *line, uint32_t *node)
{
    size_t kind = strlen("line");
    const char *file = name + kind + 1;
    tt_status st = child_of(tree, 0, name, kind, node);
    if (st == TT_OK) /* a path is one label: its folders are no branches */
        st = child_of(tree, *node, file, (size_t)(line - 1 - file), node);
    return st == TT_OK ? child_of(tree, *node, line, strlen(line), node) : st;
}

tt_status tt_name_tree_add(tt_name_tree *tree, const char *name, int32_t site, uint64_t look)
{
    const char *ends = names_modules(name) ? "/." : "/", *line = line_part(name);
    tt_status st = grow_nodes(tree);
    uint32_t node = 0;
    const char *at = name;
    if (st == TT_OK && line != NULL)
        st = add_line_name(tree, name, line, &node);
    for (int depth = 0; st == TT_OK && line == NULL; depth++) {
        size_t len = depth < DEEPEST ? strcspn(at, ends) : strlen(at);
        if (len == 0 && at[len] != '\0') /* "//": the separator is part of the label */
            len = 1 + strcspn(at + 1, ends);
        st = child_of(tree, node, at, len, &node);
        if (at[len] == '\0')
            break;
        at += len + 1;
    }
    if (st == TT_OK) {
        tree->nodes[node].site = site;
        tree->nodes[node].look = look;
    }
    return st;
}

const char *tt_name_tree_joint(const char *kind)
{
    static const char *const others[] = { "activation", "activation_gradient", "gradient", "input",
                                          "parameter" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(kind, others[i]) == 0)
            return ".";
    return strcmp(kind, "line") == 0 ? ":" : "/";
}
