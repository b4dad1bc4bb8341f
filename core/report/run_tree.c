/* run_tree.c -- the sites of a run as a tree with repeated layers folded.
 *
 * Exists because a model of 48 equal layers is understood from one of them.  The names of the
 * sites make a tree.  Neighbours whose labels are numbers and that are alike (the same class,
 * and below them the same labels, classes, types and shapes) become one row.  `show` and
 * `graph` are made of these rows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/order.h"
#include "store/run.h"
#include "summary/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 40 }; /* the rest of a name is one label */

/* A part of a name.  Children are in the order of their first appearance. */
typedef struct node {
    const char *label;                              /* in the arena */
    int32_t site;                                   /* -1: a group only */
    uint32_t parent, first_child, last_child, next; /* 0: none; [0] is the root */
    uint64_t likeness;      /* equal for nodes that are alike, they and all below */
    uint64_t look;          /* of the site: type, shape, names of the module's parameters */
    uint64_t path;          /* hash of the module's path; 0: below no kind that names modules */
    const char *class_name; /* borrowed; NULL: no module, or its class is unknown */
    bool is_output;         /* an item of what a module returned */
} node;

/* What is known of a module.  Type and shape of its output do not tell a Linear from a ReLU of
 * the same width: its class does, or in old runs the names of its parameters. */
typedef struct module {
    uint64_t path, names;   /* hashes */
    const char *class_name; /* borrowed; NULL: unknown */
} module;

/* A tree with what its rows point to. */
typedef struct whole_tree {
    tt_run_tree tree; /* first: the caller has its address */
    size_t cap;       /* of the rows */
    tt_arena labels;
    int32_t *members; /* owned; the sites of all rows, row by row */
    size_t member_count;
} whole_tree;

typedef struct maker {
    whole_tree *whole;
    uint32_t how;      /* bits of tt_tree_how */
    tt_latest *latest; /* owned; of each site */
    node *nodes;       /* owned; parents before their children */
    size_t count, cap;
    uint32_t *table;  /* owned; hash of parent and label -> node */
    size_t table_cap; /* a power of two */
    module *modules;  /* owned; by path */
    size_t module_count;
    bool has_classes;
    tt_arena scratch;
    const char *joint; /* between labels that share a row */
} maker;

void tt_run_tree_free(tt_run_tree *tree)
{
    if (tree == NULL)
        return;
    whole_tree *whole = (whole_tree *)tree;
    tt_arena_free(&whole->labels);
    free(whole->members);
    free(tree->rows);
    free(whole);
}

/* ---- hashes ---------------------------------------------------------------- */

static const uint64_t EMPTY = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

static uint64_t hash_more(uint64_t hash, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_text(const char *text)
{
    return text != NULL ? hash_more(EMPTY, text, strlen(text)) : 0;
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

/* ---- names ----------------------------------------------------------------- */

/* Returns what separates the names of modules, or lines, below this kind ("activation/x.y"). */
static const char *joint_of(const char *name)
{
    static const char *const kinds[] = { "activation", "activation_gradient", "buffer", "gradient",
                                         "input",      "parameter",           "line" };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (size_t i = 0; i < KINDS; i++)
        if (strlen(kinds[i]) == strcspn(name, "/") && tt_name_begins(name, kinds[i]))
            return i + 1 < KINDS ? "." : ":";
    return "/";
}

/* The place in the table of a label below a parent: its own, or the free one for it. */
static uint32_t *slot_of(const maker *m, uint32_t parent, const char *label, size_t len)
{
    uint64_t at = mix(hash_more(EMPTY, label, len), parent);
    for (;; at++) {
        uint32_t *slot = &m->table[at & (m->table_cap - 1)];
        const node *found = &m->nodes[*slot];
        if (*slot == 0 || (found->parent == parent && strncmp(found->label, label, len) == 0 &&
                           found->label[len] == '\0'))
            return slot;
    }
}

/* Found by hash, because a hostile run may have 200 000 names in one group. */
static tt_status grow_table(maker *m)
{
    if (m->count * 2 < m->table_cap)
        return TT_OK;
    free(m->table);
    m->table_cap = m->table_cap == 0 ? 256 : m->table_cap * 2;
    m->table = calloc(m->table_cap, sizeof *m->table);
    for (uint32_t i = 1; m->table != NULL && i < m->count; i++)
        *slot_of(m, m->nodes[i].parent, m->nodes[i].label, strlen(m->nodes[i].label)) = i;
    return m->table != NULL ? TT_OK : TT_ENOMEM;
}

/* Replaces *at by its child of this label, which is added if it is new. */
static tt_status go_down(maker *m, uint32_t *at, const char *label, size_t len)
{
    tt_status st = tt_grow(&m->nodes, &m->cap, m->count + 1, sizeof *m->nodes);
    if (st == TT_OK)
        st = grow_table(m);
    if (st < 0)
        return st;
    uint32_t *slot = slot_of(m, *at, label, len);
    if (*slot == 0) {
        const char *copy = tt_arena_text(&m->whole->labels, label, len);
        if (copy == NULL)
            return TT_ENOMEM;
        *slot = (uint32_t)m->count++;
        m->nodes[*slot] = (node){ .label = copy, .site = -1, .parent = *at };
        node *above = &m->nodes[*at];
        *(above->last_child != 0 ? &m->nodes[above->last_child].next : &above->first_child) = *slot;
        above->last_child = *slot;
    }
    *at = *slot;
    return TT_OK;
}

/* Of "line/src/train.py:34:y": where "34:y" begins; NULL: it is no such name. */
static const char *line_part(const char *name)
{
    if (!tt_name_begins(name, "line/"))
        return NULL;
    for (const char *at = name + strlen(name); at > name + strlen("line/"); at--)
        if (at[-1] == ':' && strspn(at, "0123456789") > 0 && at[strspn(at, "0123456789")] == ':')
            return at;
    return NULL;
}

/* Splits the name at '/', and at '.' below the kinds that name modules; of a line of code,
 * file and line apart. */
static tt_status add_name(maker *m, const char *name, int32_t site, uint64_t look)
{
    const char *ends = *joint_of(name) == '.' ? "/." : "/", *line = line_part(name), *at = name;
    tt_status st = TT_OK;
    uint32_t found = 0;
    for (int depth = 0; st == TT_OK && at != NULL; depth++) {
        size_t len = depth < DEEPEST ? strcspn(at, ends) : strlen(at);
        if (line != NULL && depth > 0) /* a path is one label: its folders are no branches */
            len = at < line ? (size_t)(line - 1 - at) : strlen(at);
        else if (len == 0 && *at != '\0') /* "//": the separator is part of the label */
            len = 1 + strcspn(at + 1, ends);
        st = go_down(m, &found, at, len);
        at = at[len] != '\0' ? at + len + 1 : NULL;
    }
    if (st == TT_OK) {
        m->nodes[found].site = site;
        m->nodes[found].look = look;
    }
    return st;
}

/* ---- modules --------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    const module *x = a, *y = b;
    return (x->path > y->path) - (x->path < y->path);
}

static const module *find_module(const maker *m, uint64_t path)
{
    const module key = { .path = path };
    return m->module_count > 0 ? bsearch(&key, m->modules, m->module_count, sizeof key, by_path) : NULL;
}

/* Lists what is known of each module: classes that were recorded, names of parameters. */
static tt_status list_modules(maker *m, const tt_run *run)
{
    size_t all = (size_t)tt_run_site_count(run), count = 0, kept = 0;
    for (int32_t f = 0; f < tt_run_file_count(run); f++)
        all += (size_t)tt_run_module_count(run, f);
    module *rows = m->modules = calloc(all + 1, sizeof *rows);
    if (rows == NULL)
        return TT_ENOMEM;
    for (int32_t f = 0; f < tt_run_file_count(run); f++) {
        tt_module about;
        for (int32_t i = 0; tt_run_module(run, f, i, &about) == TT_OK; i++)
            rows[count++] = (module){ .path = hash_text(about.path), .class_name = about.class_name };
    }
    m->has_classes = count > 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        if (!tt_name_begins(name, "parameter/"))
            continue;
        name += strlen("parameter/");
        const char *dot = strrchr(name, '.');
        rows[count++] = (module){ .path = hash_more(EMPTY, name, dot != NULL ? (size_t)(dot - name) : 0),
                                  .names = hash_text(dot != NULL ? dot + 1 : name) };
    }
    qsort(rows, count, sizeof *rows, by_path);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || rows[kept - 1].path != rows[i].path) {
            rows[kept++] = rows[i];
            continue;
        }
        rows[kept - 1].names += rows[i].names; /* a sum: whatever the order */
        if (rows[i].class_name != NULL)
            rows[kept - 1].class_name = rows[i].class_name;
    }
    m->module_count = kept;
    return TT_OK;
}

/* Sets path, class and is_output of every node, then their likeness. */
static void compare_nodes(maker *m)
{
    for (size_t i = 1; i < m->count; i++) { /* parents first */
        node *n = &m->nodes[i];
        const node *above = &m->nodes[n->parent], *kind = above;
        bool is_top = above->parent == 0;
        if (n->parent == 0)
            n->path = *joint_of(n->label) == '.' ? EMPTY : 0;
        if (n->parent == 0 || above->path == 0)
            continue;
        n->path = hash_more(is_top ? EMPTY : hash_more(above->path, ".", 1), n->label, strlen(n->label));
        while (kind->parent != 0)
            kind = &m->nodes[kind->parent];
        const module *found = find_module(m, n->path);
        bool has_outputs = strcmp(kind->label, "parameter") != 0 && strcmp(kind->label, "gradient") != 0;
        n->class_name = found != NULL ? found->class_name : NULL;
        n->look = mix(n->look, found != NULL && has_outputs ? found->names : 0);
        n->is_output = has_outputs && !is_top && n->class_name == NULL &&
                       (m->has_classes || above->is_output ||
                        tt_name_ends(above->label, "(root)")); /* also "name:(root)" */
    }
    for (size_t i = m->count; i-- > 1;) { /* children first */
        node *n = &m->nodes[i];
        n->likeness = mix(mix(n->site >= 0, n->look), hash_text(n->class_name));
        uint64_t below = 0; /* a sum: compiled code hands gradients over in any order */
        for (uint32_t c = n->first_child; c != 0; c = m->nodes[c].next)
            below += mix(hash_text(m->nodes[c].label), m->nodes[c].likeness);
        n->likeness = mix(n->likeness, below);
    }
}

/* ---- rows ------------------------------------------------------------------ */

/* Nodes that are alike, shown as one row. */
typedef struct group {
    uint32_t *nodes; /* in the scratch arena */
    size_t count;
    size_t width; /* neighbours that are folded */
    const char *label;
} group;

/* Is it one of several?  The items of a tuple that a module returned are not. */
static bool is_numbered(const node *n)
{
    return *n->label != '\0' && n->label[strspn(n->label, "0123456789")] == '\0' && !n->is_output;
}

static const char *join_label(maker *m, const char *a, const char *between, const char *b)
{
    size_t room = strlen(a) + strlen(between) + strlen(b) + 1;
    char *text = tt_arena_alloc(&m->whole->labels, room);
    if (text != NULL)
        (void)snprintf(text, room, "%s%s%s", a, between, b);
    return text;
}

/* Lists the groups of children of nodes that are alike: those of the first node determine which
 * neighbours are folded; the others have children of the same labels.  NULL: out of memory. */
static group *list_groups(maker *m, const group *parents, size_t *count)
{
    const node *nodes = m->nodes;
    size_t children = 0, have = 0;
    uint32_t first = nodes[parents->nodes[0]].first_child, next = first;
    for (uint32_t c = first; c != 0; c = nodes[c].next)
        children++;
    group *groups = tt_arena_alloc(&m->scratch, (children + 1) * sizeof *groups);
    tt_fold_item *items = tt_arena_alloc(&m->scratch, (children + 1) * sizeof *items);
    if (groups == NULL || items == NULL)
        return NULL;
    for (uint32_t c = first, i = 0; c != 0; c = nodes[c].next, i++)
        items[i] = is_numbered(&nodes[c]) ? (tt_fold_item){ .kind = nodes[c].likeness, .numbers = c }
                                          : (tt_fold_item){ 0 };
    size_t longest = (m->how & TT_TREE_UNFOLDED) == 0 ? 1 : 0; /* neighbours only */
    for (size_t at = 0, width; at < children; at += width) {
        (void)tt_fold_find(items, children, at, longest, &width);
        groups[have++] = (group){ .width = width, .label = nodes[next].label };
        for (size_t w = 0; w < width; w++)
            next = nodes[next].next;
    }
    for (size_t k = 0; k < have; k++) {
        size_t bytes = (parents->count * groups[k].width + 1) * sizeof *groups->nodes;
        groups[k].nodes = tt_arena_alloc(&m->scratch, bytes);
        if (groups[k].nodes == NULL)
            return NULL;
    }
    for (size_t i = 0; i < parents->count; i++) {
        uint32_t c = first;
        for (group *g = groups; g < groups + have; g++)
            for (size_t w = 0; w < g->width; w++, c = nodes[c].next) {
                uint32_t same = *slot_of(m, parents->nodes[i], nodes[c].label, strlen(nodes[c].label));
                if (same != 0)
                    g->nodes[g->count++] = same;
            }
    }
    for (group *g = groups; g < groups + have; g++) {
        if (g->width == 1)
            continue;
        const char *low = g->label, *high = low;
        for (size_t w = 1; w < g->width; w++) {
            const char *label = nodes[g->nodes[w]].label;
            low = strtol(label, NULL, 10) < strtol(low, NULL, 10) ? label : low;
            high = strtol(label, NULL, 10) > strtol(high, NULL, 10) ? label : high;
        }
        g->label = join_label(m, low, "-", high);
        if (g->label == NULL)
            return NULL;
    }
    *count = have;
    return groups;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double rms_of(const tt_latest *latest)
{
    const tt_stats *s = &latest->latest.stats;
    bool is_tensor = (latest->latest.products & TT_PRODUCT_STATS) != 0 && s->count > 1;
    double rms = is_tensor ? tt_stats_rms(s) : 0;
    return rms > 0 && isfinite(rms) ? rms : 0;
}

/* Finds what a row of several layers hides: how the first differs from the last, and one that is unlike the rest. */
static tt_status look_inside(maker *m, tt_tree_row *row)
{
    static const double ALIKE = 4; /* times the median */
    size_t count = 0, unlike = 0;
    double *sizes = tt_arena_alloc(&m->scratch, ((size_t)row->sites + 1) * sizeof *sizes);
    if (sizes == NULL)
        return TT_ENOMEM;
    for (int32_t i = 0; i < row->sites; i++) {
        double rms = rms_of(&m->latest[row->members[i]]);
        if (rms > 0)
            sizes[count++] = rms;
    }
    if (count < 3 || count < (size_t)row->sites)
        return TT_OK;
    row->rms_first = sizes[0];
    row->rms_last = sizes[count - 1];
    qsort(sizes, count, sizeof *sizes, by_size);
    row->rms_usual = sizes[count / 2];
    for (int32_t i = 0; i < row->sites; i++) {
        double rms = rms_of(&m->latest[row->members[i]]),
               times = fmax(rms / row->rms_usual, row->rms_usual / rms);
        if (times <= ALIKE)
            continue;
        unlike++;
        row->odd = row->members[i];
        row->rms_odd = rms;
    }
    if (unlike != 1)
        row->odd = -1;
    return TT_OK;
}

/* Adds the row of a group; all of its nodes have a site, or none. */
static tt_status add_row(maker *m, const group *g, int32_t depth, uint64_t ended)
{
    tt_run_tree *tree = &m->whole->tree;
    int32_t *members = m->whole->members + m->whole->member_count;
    tt_status st = tt_grow(&tree->rows, &m->whole->cap, tree->count + 1, sizeof *tree->rows);
    if (st < 0)
        return st;
    const node *first = &m->nodes[g->nodes[0]];
    tt_tree_row *row = &tree->rows[tree->count++];
    *row = (tt_tree_row){ .label = g->label,
                          .depth = depth,
                          .ended = ended,
                          .file = -1,
                          .site = -1,
                          .members = members,
                          .width = (int32_t)g->width,
                          .class_name = first->class_name,
                          .is_output = first->is_output,
                          .worst = -1,
                          .odd = -1 };
    for (size_t i = 0; i < g->count; i++) {
        int32_t site = m->nodes[g->nodes[i]].site;
        if (site < 0)
            continue;
        const tt_latest *latest = &m->latest[site];
        if (latest->has_bad && row->worst < 0) {
            row->worst = site;
            row->bad_step = latest->bad_step;
        }
        if (row->sites > 0) {
            tt_stats_merge(&row->latest.stats, &latest->latest.stats);
        } else {
            row->file = latest->file;
            row->phases = latest->phases;
            row->site = site;
            row->latest = latest->latest;
        }
        members[row->sites++] = site;
    }
    m->whole->member_count += (size_t)row->sites;
    return row->sites > 2 ? look_inside(m, row) : TT_OK;
}

static tt_status add_children(maker *m, const group *parents, int32_t depth, uint64_t ended)
{
    size_t count = 0;
    group *groups = list_groups(m, parents, &count);
    tt_status st = groups != NULL ? TT_OK : TT_ENOMEM;
    for (size_t k = 0; st == TT_OK && k < count; k++) {
        group g = groups[k];
        uint64_t bit = UINT64_C(1) << (depth < 63 ? depth : 63);
        uint64_t below = k + 1 == count ? ended | bit : ended & ~bit;
        if (depth == 0)
            m->joint = joint_of(g.label);
        /* A group with no site of its own and one child shares a row with it: layers / 0-11
         * becomes layers.0-11.  The kind stays alone. */
        while (st == TT_OK && depth > 0 && (m->how & TT_TREE_UNJOINED) == 0 && g.count > 0 &&
               m->nodes[g.nodes[0]].site < 0) {
            size_t only = 0;
            group *inner = list_groups(m, &g, &only);
            if (inner != NULL && only != 1)
                break;
            const char *label = inner != NULL ? join_label(m, g.label, m->joint, inner->label) : NULL;
            st = label != NULL ? TT_OK : TT_ENOMEM;
            if (st == TT_OK)
                g = (group){ inner->nodes, inner->count, g.width * inner->width, label };
        }
        if (st < 0 || g.count == 0)
            continue;
        st = add_row(m, &g, depth, below);
        if (st == TT_OK)
            st = add_children(m, &g, depth + 1, below);
    }
    return st;
}

/* Makes the nodes of all sites that match and have points. */
static tt_status add_sites(maker *m, tt_run *run, const tt_look *look, const char *only, tt_error *err)
{
    tt_status st = list_modules(m, run);
    if (st == TT_OK)
        st = tt_grow(&m->nodes, &m->cap, 1, sizeof *m->nodes);
    if (st < 0)
        return st;
    m->nodes[m->count++] = (node){ .label = "", .site = -1 };
    for (int32_t site = 0; st == TT_OK && site < m->whole->tree.sites; site++) {
        const char *name = tt_run_site_name(run, site);
        tt_latest *latest = &m->latest[site];
        if (!tt_site_is_shown(name, only))
            continue;
        st = tt_run_look(run, site, look, latest, err);
        if (st < 0 || latest->file < 0)
            continue;
        st = add_name(m, name, site, look_of(&latest->latest));
    }
    if (st == TT_OK && m->count == 1)
        st = tt_fail(err, TT_EMISMATCH, "no site matches '%.150s'", only != NULL ? only : "*");
    return st;
}

tt_status tt_run_tree_create(tt_run *run, const tt_look *look, const char *only, uint32_t how,
                             tt_run_tree **out, tt_error *err)
{
    size_t sites = (size_t)tt_run_site_count(run);
    maker m = { .how = how,
                .whole = calloc(1, sizeof *m.whole),
                .latest = calloc(sites + 1, sizeof *m.latest) };
    tt_status st = m.whole != NULL && m.latest != NULL ? TT_OK : TT_ENOMEM;
    if (st == TT_OK) {
        m.whole->tree.sites = (int32_t)sites;
        m.whole->members = calloc(sites + 1, sizeof *m.whole->members);
        st = m.whole->members != NULL ? TT_OK : TT_ENOMEM;
    }
    if (st == TT_OK)
        st = add_sites(&m, run, look, only, err);
    if (st == TT_OK) {
        compare_nodes(&m);
        st = add_children(&m, &(group){ .nodes = (uint32_t[]){ 0 }, .count = 1 }, 0, 0);
    }
    if (st == TT_OK)
        *out = &m.whole->tree;
    else
        tt_run_tree_free(m.whole != NULL ? &m.whole->tree : NULL);
    free(m.latest);
    free(m.nodes);
    free(m.table);
    free(m.modules);
    tt_arena_free(&m.scratch);
    return st == TT_ENOMEM ? tt_fail_plain(err, st) : st;
}
