/* tree.c -- lines drawn as a tree.
 *
 * Exists so that `tt.show`, the command line and the logs draw the same tree.
 * Nodes are kept in the order in which they came, which is the order in which
 * they are drawn; each knows its parent, each parent its last child.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/glyph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A longer label pushes its own text aside, not that of all its neighbours. */
enum { WIDEST_LABEL = 40 };

typedef struct node {
    const char *label, *text; /* in the tree's arena; "": none */
    size_t parent;            /* index of a node that came earlier; 0: the root */
    size_t last_child;        /* index; 0: none yet */
    uint32_t depth;           /* 0: at the left edge */
    size_t widest[2];         /* columns of the children's labels; [1]: in ASCII */
} node;

struct tt_tree {
    tt_arena arena; /* owned: labels and texts */
    node *nodes;    /* owned; [0] is a root that is never drawn */
    size_t count, cap;
    size_t open; /* index of the innermost open node */
};

tt_status tt_tree_create(tt_tree **out)
{
    tt_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL || tt_grow(&tree->nodes, &tree->cap, 1, sizeof *tree->nodes) < 0) {
        free(tree);
        return TT_ENOMEM;
    }
    tree->nodes[tree->count++] = (node){ 0 };
    *out = tree;
    return TT_OK;
}

void tt_tree_free(tt_tree *tree)
{
    if (tree == NULL)
        return;
    tt_arena_free(&tree->arena);
    free(tree->nodes);
    free(tree);
}

tt_status tt_tree_leaf(tt_tree *tree, const char *label, const char *text)
{
    label = label != NULL ? label : "";
    text = text != NULL ? text : "";
    tt_status st = tt_grow(&tree->nodes, &tree->cap, tree->count + 1, sizeof *tree->nodes);
    if (st < 0)
        return st;
    const char *label_copy = tt_arena_text(&tree->arena, label, strlen(label));
    const char *text_copy = tt_arena_text(&tree->arena, text, strlen(text));
    if (label_copy == NULL || text_copy == NULL)
        return TT_ENOMEM;
    node *parent = &tree->nodes[tree->open];
    tree->nodes[tree->count] = (node){
        .label = label_copy,
        .text = text_copy,
        .parent = tree->open,
        .depth = tree->open == 0 ? 0 : parent->depth + 1,
    };
    parent->last_child = tree->count++;
    for (int is_ascii = 0; is_ascii < 2 && *text_copy != '\0'; is_ascii++) {
        tt_style style = { .is_ascii = is_ascii == 1 };
        size_t columns = tt_glyph_columns(label_copy, TT_TRUST_NONE, &style);
        if (columns <= WIDEST_LABEL && columns > parent->widest[is_ascii])
            parent->widest[is_ascii] = columns;
    }
    return TT_OK;
}

tt_status tt_tree_open(tt_tree *tree, const char *label, const char *text)
{
    tt_status st = tt_tree_leaf(tree, label, text);
    if (st == TT_OK)
        tree->open = tree->count - 1;
    return st;
}

void tt_tree_close(tt_tree *tree)
{
    assert(tree->open > 0);
    tree->open = tree->nodes[tree->open].parent;
}

const char *tt_tree_guide(bool is_own, bool is_ended, bool is_ascii)
{
    if (is_own)
        return is_ended ? is_ascii ? "`- " : "└─ " : is_ascii ? "|- " : "├─ ";
    return is_ended ? "   " : is_ascii ? "|  " : "│  ";
}

/* Guides for a node: one for each ancestor below the edge, then its own elbow.
 * is_last[d] says whether the branch at depth d has ended. */
static void put_guides(const node *n, const char *is_last, const tt_style *style, tt_buf *out)
{
    if (n->depth == 0)
        return;
    (void)tt_glyph_ink(out, TT_MOOD_FAINT, style);
    for (uint32_t d = 1; d <= n->depth; d++)
        (void)tt_buf_text(out, tt_tree_guide(d == n->depth, is_last[d] != 0, style->is_ascii));
    (void)tt_glyph_ink(out, TT_MOOD_PLAIN, style);
}

static void put_texts(const node *n, const node *parent, const tt_style *style, tt_buf *out)
{
    (void)tt_glyph_append(out, n->label, TT_TRUST_NONE, style);
    if (*n->text == '\0')
        return;
    size_t widest = parent->widest[style->is_ascii ? 1 : 0];
    if (widest > 0 || *n->label != '\0') {
        size_t columns = tt_glyph_columns(n->label, TT_TRUST_NONE, style);
        (void)tt_glyph_spaces(out, (columns < widest ? widest - columns : 0) + 2);
    }
    (void)tt_glyph_append(out, n->text, TT_TRUST_INK, style);
}

tt_status tt_tree_render(const tt_tree *tree, const tt_style *style, tt_buf *out)
{
    size_t from = out->len;
    tt_buf is_last = { 0 }; /* a byte for each depth of the path to the node */
    for (size_t i = 1; out->st == TT_OK && i < tree->count; i++) {
        const node *n = &tree->nodes[i], *parent = &tree->nodes[n->parent];
        size_t line = out->len;
        char flag = parent->last_child == i ? 1 : 0;
        assert(n->depth <= is_last.len);
        tt_buf_cut(&is_last, n->depth);
        if (tt_buf_append(&is_last, &flag, 1) < 0) {
            out->st = is_last.st;
            break;
        }
        put_guides(n, is_last.data, style, out);
        put_texts(n, parent, style, out);
        (void)tt_glyph_cut(out, line, style);
        (void)tt_buf_append(out, "\n", 1);
    }
    if (out->st < 0)
        tt_buf_cut(out, from);
    tt_buf_free(&is_last);
    return out->st;
}

tt_status tt_tree_line(int32_t depth, tt_branch branch, const char *text, const tt_style *style,
                       tt_buf *out)
{
    static const char *const marks[][2] = {
        [TT_BRANCH_CALL] = { "┌── ", ".-- " },
        [TT_BRANCH_ENTRY] = { "├─ ", "|- " },
        [TT_BRANCH_LAST] = { "└─ ", "`- " },
    };
    size_t from = out->len;
    (void)tt_glyph_ink(out, TT_MOOD_FAINT, style);
    for (int32_t d = 0; d < depth; d++)
        (void)tt_buf_text(out, style->is_ascii ? "|   " : "│   ");
    (void)tt_buf_text(out, marks[branch][style->is_ascii ? 1 : 0]);
    (void)tt_glyph_ink(out, TT_MOOD_PLAIN, style);
    (void)tt_glyph_append(out, text != NULL ? text : "", TT_TRUST_INK, style);
    if (tt_glyph_cut(out, from, style) < 0)
        tt_buf_cut(out, from);
    return out->st;
}
