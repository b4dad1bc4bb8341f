/* table.c -- rows and columns of text, laid out for a terminal.
 *
 * Exists so that every table of the program is measured, cut and coloured in one
 * way.  Cells are made safe when they are added; widths are known at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/glyph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 32, GAP = 2 };

typedef struct column {
    const char *title; /* in the arena */
    bool is_right;
    size_t least;   /* 0: never cut */
    bool keeps_end; /* what is cut off is in the middle */
    uint32_t turn;  /* in which it is left out; 0: never */
    size_t width;   /* 0: nothing to show */
} column;

typedef struct cell {
    const char *lead, *text;      /* in the arena; safe */
    size_t lead_columns, columns; /* columns: of both */
    tt_mood mood;
} cell;

struct tt_table {
    tt_style style;
    tt_arena arena; /* owned */
    tt_buf scratch;
    column columns[COLUMNS_MAX];
    size_t width; /* number of columns */
    cell *cells;  /* owned; row by row */
    size_t count, cap;
};

static const tt_ink inks[] = {
    [TT_MOOD_PLAIN] = TT_INK_PLAIN, [TT_MOOD_FAINT] = TT_INK_FAINT,   [TT_MOOD_TYPE] = TT_INK_TYPE,
    [TT_MOOD_SPARK] = TT_INK_SPARK, [TT_MOOD_REMARK] = TT_INK_REMARK, [TT_MOOD_ALARM] = TT_INK_ALARM,
};
_Static_assert(sizeof inks / sizeof *inks == TT_MOOD_COUNT_, "give every mood an ink");

tt_status tt_text_append(const char *text, const tt_style *style, tt_buf *out)
{
    size_t from = out->len;
    tt_status st = tt_glyph_append(out, text, TT_TRUST_NONE, style);
    return st < 0 ? st : tt_glyph_cut(out, from, style);
}

tt_status tt_table_create(const tt_style *style, tt_table **out)
{
    tt_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return TT_ENOMEM;
    table->style = *style;
    *out = table;
    return TT_OK;
}

void tt_table_free(tt_table *table)
{
    if (table == NULL)
        return;
    tt_arena_free(&table->arena);
    tt_buf_free(&table->scratch);
    free(table->cells);
    free(table);
}

tt_status tt_table_column(tt_table *table, const char *title, bool is_right, int32_t least)
{
    assert(table->count == 0 && table->width < COLUMNS_MAX);
    const char *copy = tt_arena_text(&table->arena, title, strlen(title));
    if (copy == NULL)
        return TT_ENOMEM;
    table->columns[table->width++] = (column){ .title = copy,
                                               .is_right = is_right,
                                               .least = (size_t)(least < 0 ? -least : least),
                                               .keeps_end = least < 0 };
    return TT_OK;
}

void tt_table_optional(tt_table *table, uint32_t turn)
{
    assert(table->count == 0 && table->width > 1);
    table->columns[table->width - 1].turn = turn;
}

tt_status tt_table_branch(tt_table *table, const char *lead, tt_mood mood, const char *text)
{
    assert(table->width > 0);
    if (table->count == table->cap) {
        size_t cap = table->cap < 64 ? 64 : table->cap * 2;
        cell *cells = cap < SIZE_MAX / sizeof *cells ? realloc(table->cells, cap * sizeof *cells) : NULL;
        if (cells == NULL)
            return TT_ENOMEM;
        table->cells = cells;
        table->cap = cap;
    }
    tt_buf_clear(&table->scratch);
    tt_status st = tt_glyph_append(&table->scratch, text, TT_TRUST_NONE, &table->style);
    if (st < 0)
        return st;
    const char *safe = table->scratch.len > 0 ? table->scratch.data : "";
    cell c = { .lead = tt_arena_text(&table->arena, lead, strlen(lead)),
               .text = tt_arena_text(&table->arena, safe, table->scratch.len),
               .mood = mood };
    if (c.lead == NULL || c.text == NULL)
        return TT_ENOMEM;
    c.lead_columns = tt_glyph_columns(c.lead, TT_TRUST_NONE, &(tt_style){ 0 });
    c.columns = c.lead_columns + tt_glyph_columns(c.text, TT_TRUST_NONE, &(tt_style){ 0 });
    table->cells[table->count++] = c;
    return TT_OK;
}

tt_status tt_table_cell(tt_table *table, tt_mood mood, const char *text)
{
    return tt_table_branch(table, "", mood, text);
}

/* Leaves out what matters least, as long as the table is too wide; returns its width. */
static size_t drop_spare(const tt_table *table, column *columns, size_t total, size_t room)
{
    while (total > room) {
        column *next = NULL;
        for (size_t c = 1; c < table->width; c++)
            if (columns[c].turn > 0 && columns[c].width > 0 &&
                (next == NULL || columns[c].turn < next->turn))
                next = &columns[c];
        if (next == NULL)
            break;
        total -= next->width + GAP;
        next->width = 0;
    }
    return total;
}

/* Fills in the widths; the widest columns that may give way do. */
static void measure(const tt_table *table, bool has_titles, column *columns)
{
    size_t total = 0;
    for (size_t c = 0; c < table->width; c++) {
        columns[c] = table->columns[c];
        for (size_t i = c; i < table->count; i += table->width)
            if (table->cells[i].columns > columns[c].width)
                columns[c].width = table->cells[i].columns;
        /* None for a column that says nothing. */
        size_t title = has_titles ? tt_glyph_columns(columns[c].title, TT_TRUST_NONE, &table->style) : 0;
        if (title > columns[c].width && (columns[c].width > 0 || c == 0 || table->count == 0))
            columns[c].width = title;
        total += columns[c].width + (c > 0 && columns[c].width > 0 ? GAP : 0);
    }
    size_t room = table->style.columns > 0 ? (size_t)table->style.columns : total;
    total = drop_spare(table, columns, total, room);
    while (total > room) {
        column *widest = NULL;
        for (size_t c = 0; c < table->width; c++)
            if (columns[c].least > 0 && columns[c].width > columns[c].least &&
                (widest == NULL || columns[c].width > widest->width))
                widest = &columns[c];
        if (widest == NULL)
            return;
        widest->width--;
        total--;
    }
}

static tt_status put_spaces(tt_buf *out, size_t n)
{
    tt_status st = TT_OK;
    for (; st == TT_OK && n > 0; n--)
        st = tt_buf_append(out, " ", 1);
    return st;
}

/* The text behind its first n characters. */
static const char *skip(const char *text, size_t n)
{
    for (; n > 0 && *text != '\0'; n--)
        do
            text++;
        while (((unsigned char)*text & 0xC0) == 0x80);
    return text;
}

/* Puts an ellipsis in place of the middle of a text that is safe, so that it takes at most
 * `room` columns: a third is the beginning, which says what kind of name it is. */
static tt_status put_ends(const char *text, size_t room, const tt_style *style, tt_buf *out)
{
    const tt_style plain = { 0 };
    size_t whole = tt_glyph_columns(text, TT_TRUST_NONE, &plain), mark = style->is_ascii ? 2 : 1;
    size_t need, head = 0, most = room > mark ? (room - mark) / 3 : 0;
    const char *tail = text, *next;
    while (*tail != '\0' &&
           (need = whole - tt_glyph_columns(next = skip(tail, 1), TT_TRUST_NONE, &plain)) <= most) {
        tail = next;
        head = need;
    }
    tt_status st = tt_buf_append(out, text, (size_t)(tail - text));
    if (st == TT_OK)
        st = tt_buf_text(out, style->is_ascii ? ".." : "\u2026");
    while ((need = head + mark + tt_glyph_columns(tail, TT_TRUST_NONE, &plain)) > room && *tail != '\0')
        tail = skip(tail, (need - room + 1) / 2); /* none takes more than two columns */
    return st == TT_OK ? tt_buf_text(out, tail) : st;
}

static tt_status put_cell(const tt_table *table, const column *col, const cell *c, bool is_last,
                          tt_buf *out)
{
    tt_status st = TT_OK;
    if (col->is_right && c->columns < col->width)
        st = put_spaces(out, col->width - c->columns);
    size_t from = out->len;
    if (st == TT_OK && *c->lead != '\0') {
        st = tt_glyph_ink(out, TT_INK_FAINT, &table->style);
        if (st == TT_OK)
            st = tt_buf_text(out, c->lead);
        if (st == TT_OK)
            st = tt_glyph_ink(out, TT_INK_PLAIN, &table->style);
    }
    bool is_inked = c->mood != TT_MOOD_PLAIN && *c->text != '\0';
    if (st == TT_OK && is_inked)
        st = tt_glyph_ink(out, inks[c->mood], &table->style);
    bool loses_middle = c->columns > col->width && col->keeps_end && c->lead_columns < col->width;
    if (st == TT_OK)
        st = loses_middle ? put_ends(c->text, col->width - c->lead_columns, &table->style, out)
                          : tt_buf_text(out, c->text);
    if (st == TT_OK && is_inked)
        st = tt_glyph_ink(out, TT_INK_PLAIN, &table->style);
    if (st == TT_OK && c->columns > col->width && !loses_middle) {
        tt_style cut = table->style;
        cut.columns = (int32_t)col->width;
        st = tt_glyph_cut(out, from, &cut);
    } else if (st == TT_OK && !col->is_right && !is_last && c->columns < col->width) {
        st = put_spaces(out, col->width - c->columns);
    }
    return st;
}

static tt_status put_row(const tt_table *table, const column *columns, const cell *cells, tt_buf *out)
{
    size_t from = out->len, last = table->width;
    tt_status st = TT_OK;
    while (last > 1 && (cells[last - 1].columns == 0 || columns[last - 1].width == 0))
        last--; /* no spaces at the end */
    for (size_t c = 0; st == TT_OK && c < last; c++) {
        if (c > 0 && columns[c].width == 0)
            continue;
        if (c > 0)
            st = put_spaces(out, GAP);
        if (st == TT_OK)
            st = put_cell(table, &columns[c], &cells[c], c + 1 == last, out);
    }
    if (st == TT_OK)
        st = tt_glyph_cut(out, from, &table->style);
    return st == TT_OK ? tt_buf_text(out, "\n") : st;
}

tt_status tt_table_render(const tt_table *table, bool has_titles, tt_buf *out)
{
    column columns[COLUMNS_MAX];
    cell titles[COLUMNS_MAX];
    assert(table->width > 0 && table->count % table->width == 0);
    measure(table, has_titles, columns);
    tt_status st = TT_OK;
    for (size_t c = 0; c < table->width; c++)
        titles[c] = (cell){ .lead = "",
                            .text = columns[c].title,
                            .mood = TT_MOOD_FAINT,
                            .columns = tt_glyph_columns(columns[c].title, TT_TRUST_NONE, &table->style) };
    if (has_titles)
        st = put_row(table, columns, titles, out);
    for (size_t i = 0; st == TT_OK && i < table->count; i += table->width)
        st = put_row(table, columns, table->cells + i, out);
    return st;
}
