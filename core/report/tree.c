/* tree.c -- lines drawn as a tree.
 *
 * Exists so that `tt.show`, the command line and the logs draw the same tree.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/glyph.h"

#include <assert.h>
#include <stdlib.h>

/* A longer label pushes its own text aside, not that of all its neighbours. */
enum { WIDEST_LABEL = 40 };

const char *tt_tree_guide(bool is_own, bool is_ended, bool is_ascii)
{
    if (is_own)
        return is_ended ? is_ascii ? "`- " : "└─ " : is_ascii ? "|- " : "├─ ";
    return is_ended ? "   " : is_ascii ? "|  " : "│  ";
}

/* What is known of neighbours, the rows below one parent.  One array, in three roles. */
typedef struct mark {
    size_t first;  /* [depth]: the first of the neighbours that are drawn there */
    bool is_ended; /* [depth]: and none follows */
    size_t group;  /* [row]: the first of its neighbours */
    size_t last;   /* [first of neighbours]: the last of them */
    size_t widest; /* [first of neighbours]: columns of their labels */
} mark;

static void find_neighbours(const tt_tree_item *rows, size_t count, const tt_style *style, mark *marks)
{
    for (size_t i = 0; i < count; i++) {
        int32_t depth = rows[i].depth, before = i > 0 ? rows[i - 1].depth : -1;
        assert(depth >= 0 && depth <= before + 1);
        if (depth > before)
            marks[depth].first = i;
        marks[i].group = marks[depth].first;
        mark *group = &marks[marks[i].group];
        group->last = i;
        size_t columns =
            *rows[i].text != '\0' ? tt_glyph_columns(rows[i].label, TT_TRUST_NONE, style) : 0;
        if (columns <= WIDEST_LABEL && columns > group->widest)
            group->widest = columns;
    }
}

/* One guide for each ancestor below the edge, then the row's own elbow. */
static void put_guides(int32_t depth, const mark *marks, const tt_style *style, tt_buf *out)
{
    if (depth == 0)
        return;
    (void)tt_glyph_ink(out, TT_MOOD_FAINT, style);
    for (int32_t d = 1; d <= depth; d++)
        (void)tt_buf_text(out, tt_tree_guide(d == depth, marks[d].is_ended, style->is_ascii));
    (void)tt_glyph_ink(out, TT_MOOD_PLAIN, style);
}

static void put_texts(const tt_tree_item *row, size_t widest, const tt_style *style, tt_buf *out)
{
    (void)tt_glyph_append(out, row->label, TT_TRUST_NONE, style);
    if (*row->text == '\0')
        return;
    if (widest > 0 || *row->label != '\0') {
        size_t columns = tt_glyph_columns(row->label, TT_TRUST_NONE, style);
        (void)tt_glyph_spaces(out, (columns < widest ? widest - columns : 0) + 2);
    }
    (void)tt_glyph_append(out, row->text, TT_TRUST_INK, style);
}

tt_status tt_tree_append(const tt_tree_item *rows, size_t count, const tt_style *style, tt_buf *out)
{
    size_t from = out->len;
    mark *marks = calloc(count + 1, sizeof *marks); /* owned */
    if (marks == NULL)
        return out->st = TT_ENOMEM;
    find_neighbours(rows, count, style, marks);
    for (size_t i = 0; out->st == TT_OK && i < count; i++) {
        const mark *group = &marks[marks[i].group];
        size_t line = out->len;
        marks[rows[i].depth].is_ended = group->last == i;
        put_guides(rows[i].depth, marks, style, out);
        put_texts(&rows[i], group->widest, style, out);
        (void)tt_glyph_cut(out, line, style);
        (void)tt_buf_append(out, "\n", 1);
    }
    if (out->st < 0)
        tt_buf_cut(out, from);
    free(marks);
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
