/* run_tree.h -- the sites of a run by the parts of their names.  For view only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_VIEW_RUN_TREE_H
#define TT_VIEW_RUN_TREE_H

#include "base/buf.h"

typedef struct tt_name_node {
    const char *label;                              /* in the arena */
    int32_t site;                                   /* -1: a group only */
    uint32_t parent, first_child, last_child, next; /* 0: none; [0] is the root */
    uint64_t likeness; /* equal for nodes that are alike below; see run_tree.c */
    uint64_t look;     /* of the site's latest point: type and shape */
} tt_name_node;

/* The names as a tree; children in the order of their first appearance. */
typedef struct tt_name_tree {
    tt_name_node *nodes; /* owned */
    uint32_t count, cap;
    uint32_t *table;    /* owned; hash of parent and label -> node */
    uint32_t table_cap; /* a power of two */
    tt_arena arena;
} tt_name_tree;

void tt_name_tree_free(tt_name_tree *tree);
/* Splits the name at '/', and at '.' below the kinds that name modules; of a line of
 * code, file and line apart. */
tt_status tt_name_tree_add(tt_name_tree *tree, const char *name, int32_t site, uint64_t look);
/* What stood between two labels below this kind: "." in modules, ":" in lines. */
const char *tt_name_tree_joint(const char *kind);

/* Which parameters each module has, so that a Linear is not taken for a ReLU. */
typedef struct tt_owned {
    uint64_t module, names; /* hashes */
} tt_owned;
typedef struct tt_owners {
    tt_owned *rows; /* owned; by module */
    size_t count;
} tt_owners;
tt_status tt_owners_find(const tt_run *run, tt_owners *out);
uint64_t tt_owners_names(const tt_owners *owners, const char *site_name); /* 0: it has none */
void tt_owners_free(tt_owners *owners);

#endif
