/* run_tree.h -- the sites of a run by the parts of their names.  For view only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_RUN_TREE_H
#define TT_REPORT_RUN_TREE_H

#include "base/buf.h"

typedef struct tt_name_node {
    const char *label;                              /* in the arena */
    int32_t site;                                   /* -1: a group only */
    uint32_t parent, first_child, last_child, next; /* 0: none; [0] is the root */
    uint64_t likeness;      /* equal for nodes that are alike below; see run_tree.c */
    uint64_t look;          /* of the site's latest point: type and shape */
    uint64_t path;          /* hash of the module's path; 0: below no kind that names modules */
    const char *class_name; /* borrowed; NULL: no module, or its class is not known */
    bool is_output;         /* part of what a module gave, no module */
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

/* What is known of each module: its class, and which parameters it has (all that tells a
 * Linear from a ReLU where no class was recorded). */
typedef struct tt_owned {
    uint64_t module, names; /* hashes */
    const char *class_name; /* borrowed; NULL: not known */
} tt_owned;
typedef struct tt_owners {
    tt_owned *rows; /* owned; by module */
    size_t count;
    bool has_classes;
} tt_owners;
tt_status tt_owners_find(const tt_run *run, tt_owners *out);
/* Sets path, class and is_output of every node. */
void tt_owners_apply(const tt_owners *owners, tt_name_tree *tree);
uint64_t tt_owners_names(const tt_owners *owners, const char *site_name); /* 0: it has none */
void tt_owners_free(tt_owners *owners);

#endif
