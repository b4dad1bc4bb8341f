/* run_tree.c -- the sites of a run as a tree with repeated layers folded.
 *
 * Exists because a model of 48 equal layers is understood from one of them.
 * Neighbours whose labels are numbers and that are alike (the same class, and below
 * them the same labels, classes, types and shapes) become one line that stands for
 * them all.  `show` and `graph` are made of these lines.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/run_tree.h"

#include "summary/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tt_run_tree {
    tt_name_tree names;
    tt_arena arena;      /* labels that were made here */
    uint32_t *anomalies; /* owned; of each site of the run */
    int32_t sites;
    int32_t *members; /* owned; the sites of all rows, row by row */
    size_t member_count;
    tt_tree_row *rows;
    size_t count, cap;
};

typedef struct maker {
    tt_run *run;
    uint32_t how; /* bits of tt_tree_how */
    tt_run_tree *tree;
    tt_latest *sights; /* owned; of each site */
    tt_owners owners;  /* owned */
    const char *joint; /* between labels that share a line */
    tt_error *err;
} maker;

void tt_run_tree_free(tt_run_tree *tree)
{
    if (tree == NULL)
        return;
    tt_name_tree_free(&tree->names);
    tt_arena_free(&tree->arena);
    free(tree->rows);
    free(tree->anomalies);
    free(tree->members);
    free(tree);
}

size_t tt_run_tree_count(const tt_run_tree *tree)
{
    return tree->count;
}

const tt_tree_row *tt_run_tree_at(const tt_run_tree *tree, size_t i)
{
    return i < tree->count ? &tree->rows[i] : NULL;
}

uint32_t tt_run_tree_anomalies(const tt_run_tree *tree, int32_t site)
{
    return site >= 0 && site < tree->sites ? tree->anomalies[site] : 0;
}

const int32_t *tt_run_tree_members(const tt_run_tree *tree, size_t i)
{
    return i < tree->count ? tree->members + tree->rows[i].first_member : NULL;
}

static uint64_t mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t look_of(const tt_point *p)
{
    uint64_t hash = mix(p->products & (TT_PRODUCT_STATS | TT_PRODUCT_SCALAR), (uint64_t)p->stats.dtype);
    for (int32_t d = 0; d < p->ndim; d++)
        hash = mix(hash, (uint64_t)p->shape[d]);
    return mix(hash, (uint64_t)p->ndim);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    for (; text != NULL && *text != '\0'; text++)
        hash = mix(hash, (unsigned char)*text);
    return hash;
}

/* From the leaves up: children come after their parents in the array. */
static void find_likeness(tt_name_tree *names)
{
    for (uint32_t i = names->count; i-- > 1;) {
        tt_name_node *node = &names->nodes[i];
        node->likeness = mix_text(mix(node->site >= 0, node->look), node->class_name);
        for (uint32_t c = node->first_child; c != 0; c = names->nodes[c].next) {
            uint64_t label = mix_text(0, names->nodes[c].label);
            node->likeness = mix(mix(node->likeness, label), names->nodes[c].likeness);
        }
    }
}

/* Is it one of several?  The items of a tuple that a module gave are not. */
static bool is_numbered(const tt_name_node *node)
{
    const char *label = node->label;
    return *label != '\0' && label[strspn(label, "0123456789")] == '\0' && !node->is_output;
}

static tt_status add_row(maker *m, const tt_tree_row *row)
{
    tt_run_tree *tree = m->tree;
    if (tree->count == tree->cap) {
        size_t cap = tree->cap < 64 ? 64 : tree->cap * 2;
        tt_tree_row *rows =
            cap < SIZE_MAX / sizeof *rows ? realloc(tree->rows, cap * sizeof *rows) : NULL;
        if (rows == NULL)
            return TT_ENOMEM;
        tree->rows = rows;
        tree->cap = cap;
    }
    tree->rows[tree->count++] = *row;
    return TT_OK;
}

/* The row of nodes that are alike; all of them have a site, or none. */
static void fill_row(const maker *m, const uint32_t *nodes, size_t n, tt_tree_row *row)
{
    row->site = row->worst = -1;
    row->first_member = m->tree->member_count;
    row->class_name = m->tree->names.nodes[nodes[0]].class_name;
    row->is_output = m->tree->names.nodes[nodes[0]].is_output;
    for (size_t i = 0; i < n; i++) {
        int32_t site = m->tree->names.nodes[nodes[i]].site;
        if (site < 0)
            continue;
        m->tree->members[m->tree->member_count++] = site;
        row->anomalies |= m->tree->anomalies[site];
        if (m->tree->anomalies[site] != 0 && row->worst < 0)
            row->worst = site;
        if (row->sites++ == 0) {
            row->file = m->sights[site].file;
            row->phases = m->sights[site].phases;
            row->site = site;
            row->latest = m->sights[site].latest;
        } else {
            tt_stats_merge(&row->latest.stats, &m->sights[site].latest.stats);
        }
    }
}

static const char *join_label(maker *m, const char *a, const char *between, const char *b)
{
    tt_buf text = { 0 };
    const char *copy = NULL;
    if (tt_buf_printf(&text, "%s%s%s", a, between, b) == TT_OK)
        copy = tt_arena_text(&m->tree->arena, text.data, text.len);
    tt_buf_free(&text);
    return copy;
}

static tt_status put_children(maker *m, const uint32_t *nodes, size_t n, int32_t depth, uint64_t ended);

static tt_status put_node(maker *m, const uint32_t *nodes, size_t n, const char *label, size_t width,
                          int32_t depth, uint64_t ended)
{
    tt_tree_row row = {
        .label = label, .width = (int32_t)width, .depth = depth, .ended = ended, .file = -1
    };
    fill_row(m, nodes, n, &row);
    tt_status st = label != NULL ? add_row(m, &row) : TT_ENOMEM;
    return st == TT_OK ? put_children(m, nodes, n, depth + 1, ended) : st;
}

/* The groups of children of the first node that are shown as one line each. */
typedef struct group {
    uint32_t first; /* node */
    size_t width;   /* neighbours, it too */
    const char *label;
} group;

static tt_status list_groups(maker *m, uint32_t parent, group **out, size_t *count)
{
    const tt_name_node *nodes = m->tree->names.nodes;
    size_t n = 0, have = 0;
    for (uint32_t c = nodes[parent].first_child; c != 0; c = nodes[c].next)
        n++;
    group *groups = calloc(n + 1, sizeof *groups);
    if (groups == NULL)
        return TT_ENOMEM;
    uint32_t last = 0;
    for (uint32_t c = nodes[parent].first_child; c != 0; last = c, c = nodes[c].next) {
        group *g = have > 0 ? &groups[have - 1] : NULL;
        if (g != NULL && (m->how & TT_TREE_UNFOLDED) == 0 && is_numbered(&nodes[c]) &&
            is_numbered(&nodes[last]) && nodes[c].likeness == nodes[g->first].likeness) {
            g->width++;
            const char *one = nodes[g->first].label, *other = nodes[c].label;
            bool is_turned = strtol(one, NULL, 10) > strtol(other, NULL, 10); /* backward */
            g->label = join_label(m, is_turned ? other : one, "-", is_turned ? one : other);
        } else {
            groups[have++] = (group){ .first = c, .width = 1, .label = nodes[c].label };
        }
    }
    *out = groups;
    *count = have;
    return TT_OK;
}

/* All nodes that a group stands for, below each of the parents; each cursor is at
 * the first child that no earlier group has taken. */
static size_t collect(const tt_name_node *nodes, uint32_t *cursors, size_t n, const group *g,
                      uint32_t *out)
{
    size_t have = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < g->width && cursors[i] != 0; k++, cursors[i] = nodes[cursors[i]].next)
            out[have++] = cursors[i];
    return have;
}

static uint32_t *first_children(const tt_name_node *nodes, const uint32_t *parents, size_t n)
{
    uint32_t *cursors = malloc((n + 1) * sizeof *cursors);
    for (size_t i = 0; cursors != NULL && i < n; i++)
        cursors[i] = nodes[parents[i]].first_child;
    return cursors;
}

/* A group with no site of its own and one child shares a line with it: layers / 0-11
 * becomes layers.0-11.  Takes *members in exchange for those below. */
static tt_status join_only_children(maker *m, uint32_t **members, size_t *have, const char **label,
                                    size_t *width)
{
    const tt_name_node *nodes = m->tree->names.nodes;
    tt_status st = TT_OK;
    while (st == TT_OK && *have > 0 && nodes[(*members)[0]].site < 0) {
        group *inner = NULL;
        size_t count = 0;
        st = list_groups(m, (*members)[0], &inner, &count);
        if (st < 0 || count != 1) {
            free(inner);
            break;
        }
        uint32_t *cursors = first_children(nodes, *members, *have);
        uint32_t *deeper = malloc((*have * inner[0].width + 1) * sizeof *deeper);
        const char *longer =
            inner[0].label != NULL ? join_label(m, *label, m->joint, inner[0].label) : NULL;
        if (cursors != NULL && deeper != NULL && longer != NULL) {
            *have = collect(nodes, cursors, *have, &inner[0], deeper);
            *label = longer;
            *width *= inner[0].width;
            free(*members);
            *members = deeper;
        } else {
            free(deeper);
            st = TT_ENOMEM;
        }
        free(cursors);
        free(inner);
    }
    return st;
}

static tt_status put_children(maker *m, const uint32_t *parents, size_t n, int32_t depth, uint64_t ended)
{
    const tt_name_node *nodes = m->tree->names.nodes;
    group *groups = NULL;
    size_t count = 0;
    uint32_t *cursors = first_children(nodes, parents, n);
    tt_status st = cursors != NULL ? list_groups(m, parents[0], &groups, &count) : TT_ENOMEM;
    for (size_t k = 0; st == TT_OK && k < count; k++) {
        const char *label = groups[k].label;
        uint32_t *members = malloc((n * groups[k].width + 1) * sizeof *members);
        st = members != NULL && label != NULL ? TT_OK : TT_ENOMEM;
        size_t have = st == TT_OK ? collect(nodes, cursors, n, &groups[k], members) : 0;
        uint64_t bit = UINT64_C(1) << (depth < 63 ? depth : 63);
        uint64_t below = k + 1 == count ? ended | bit : ended & ~bit;
        if (st == TT_OK && depth == 0)
            m->joint = tt_name_tree_joint(label);
        size_t width = groups[k].width;
        if (st == TT_OK && depth > 0 && (m->how & TT_TREE_UNJOINED) == 0) /* the kind stays alone */
            st = join_only_children(m, &members, &have, &label, &width);
        if (st == TT_OK && have > 0)
            st = put_node(m, members, have, label, width, depth, below);
        free(members);
    }
    free(cursors);
    free(groups);
    return st;
}

tt_status tt_run_tree_create(tt_run *run, const tt_look *look, const char *only, uint32_t how,
                             tt_run_tree **out, tt_error *err)
{
    size_t sites = (size_t)tt_run_site_count(run), matched = 0;
    maker m = { .run = run, .how = how, .err = err };
    m.tree = calloc(1, sizeof *m.tree);
    m.sights = calloc(sites + 1, sizeof *m.sights);
    if (m.tree != NULL) {
        m.tree->anomalies = calloc(sites + 1, sizeof *m.tree->anomalies);
        m.tree->members = calloc(sites + 1, sizeof *m.tree->members);
    }
    tt_status st =
        m.tree != NULL && m.sights != NULL && m.tree->anomalies != NULL && m.tree->members != NULL
            ? TT_OK
            : TT_ENOMEM;
    if (st == TT_OK)
        m.tree->sites = (int32_t)sites;
    bool is_told = false;
    if (st == TT_OK)
        st = tt_owners_find(run, &m.owners);
    for (int32_t site = 0; st == TT_OK && site < (int32_t)sites; site++) {
        const char *name = tt_run_site_name(run, site);
        tt_latest *sight = &m.sights[site];
        if (!tt_site_is_shown(name, only))
            continue;
        st = tt_run_look(run, site, look, sight, err);
        is_told = st < 0;
        if (st == TT_OK && sight->file < 0)
            continue;
        m.tree->anomalies[site] = sight->anomalies;
        if (st == TT_OK)
            st = tt_name_tree_add(&m.tree->names, name, site,
                                  mix(look_of(&sight->latest), tt_owners_names(&m.owners, name)));
        matched++;
    }
    if (st == TT_OK && matched == 0) {
        st = tt_fail(err, TT_EMISMATCH, "no site matches '%.150s'", only != NULL ? only : "*");
        is_told = true;
    }
    if (st == TT_OK) {
        tt_owners_apply(&m.owners, &m.tree->names);
        find_likeness(&m.tree->names);
        st = put_children(&m, (const uint32_t[]){ 0 }, 1, 0, 0);
    }
    if (st == TT_OK)
        *out = m.tree;
    else
        tt_run_tree_free(m.tree);
    free(m.sights);
    tt_owners_free(&m.owners);
    return st < 0 && !is_told ? tt_fail(err, st, "%s", tt_status_text(st)) : st;
}
