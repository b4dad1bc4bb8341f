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

typedef struct cell {
    const char *lead, *text;      /* in the arena; safe */
    size_t lead_columns, columns; /* columns: of both */
    tt_mood mood;
} cell;

struct tt_table {
    tt_style style;
    tt_arena arena; /* owned */
    tt_buf scratch;
    tt_table_column columns[COLUMNS_MAX];
    size_t width; /* number of columns */
    cell *cells;  /* owned; row by row, the titles first */
    size_t count, cap;
    tt_status st; /* the first failure */
};

tt_table *tt_table_create(const tt_style *style, const tt_table_column *columns, size_t count)
{
    assert(count > 0 && count <= COLUMNS_MAX);
    tt_table *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->style = *style;
    table->width = count;
    memcpy(table->columns, columns, count * sizeof *columns);
    for (size_t c = 0; c < count; c++)
        tt_table_cell(table, TT_MOOD_FAINT, columns[c].title);
    return table;
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

static tt_status add_cell(tt_table *table, const char *lead, tt_mood mood, const char *text)
{
    tt_status st = tt_grow(&table->cells, &table->cap, table->count + 1, sizeof *table->cells);
    if (st < 0)
        return st;
    tt_buf_clear(&table->scratch);
    if (tt_glyph_append(&table->scratch, text, TT_TRUST_NONE, &table->style) < 0)
        return TT_ENOMEM;
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

void tt_table_branch(tt_table *table, const char *lead, tt_mood mood, const char *text)
{
    if (table != NULL && table->st == TT_OK)
        table->st = add_cell(table, lead, mood, text);
}

void tt_table_cell(tt_table *table, tt_mood mood, const char *text)
{
    tt_table_branch(table, "", mood, text);
}

/* Drops optional columns while the table is too wide; returns its width. */
static size_t drop_optional(const tt_table *table, size_t *widths, size_t total, size_t room)
{
    while (total > room) {
        size_t next = 0;
        for (size_t c = 1; c < table->width; c++)
            if (table->columns[c].optional > 0 && widths[c] > 0 &&
                (next == 0 || table->columns[c].optional < table->columns[next].optional))
                next = c;
        if (next == 0)
            break;
        total -= widths[next] + GAP;
        widths[next] = 0;
    }
    return total;
}

/* Fills in the width of each column; 0: it is not shown. */
static void measure(const tt_table *table, size_t *widths)
{
    size_t total = 0;
    for (size_t c = 0; c < table->width; c++) {
        widths[c] = 0;
        for (size_t i = c + table->width; i < table->count; i += table->width)
            if (table->cells[i].columns > widths[c])
                widths[c] = table->cells[i].columns;
        /* A column with nothing in it needs no title. */
        size_t title = table->cells[c].columns;
        if (title > widths[c] && (widths[c] > 0 || c == 0 || table->count == table->width))
            widths[c] = title;
        total += widths[c] + (c > 0 && widths[c] > 0 ? GAP : 0);
    }
    size_t room = table->style.columns > 0 ? (size_t)table->style.columns : total;
    total = drop_optional(table, widths, total, room);
    for (; total > room; total--) {
        size_t widest = table->width;
        for (size_t c = 0; c < table->width; c++) {
            int32_t least = table->columns[c].least;
            if (least != 0 && widths[c] > (size_t)abs(least) &&
                (widest == table->width || widths[c] > widths[widest]))
                widest = c;
        }
        if (widest == table->width)
            return;
        widths[widest]--;
    }
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
static void put_ends(const char *text, size_t room, const tt_style *style, tt_buf *out)
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
    (void)tt_buf_append(out, text, (size_t)(tail - text));
    (void)tt_buf_text(out, style->is_ascii ? ".." : "\u2026");
    while ((need = head + mark + tt_glyph_columns(tail, TT_TRUST_NONE, &plain)) > room && *tail != '\0')
        tail = skip(tail, (need - room + 1) / 2); /* none takes more than two columns */
    (void)tt_buf_text(out, tail);
}

static void put_cell(const tt_table *table, const tt_table_column *column, size_t width, const cell *c,
                     bool is_last, tt_buf *out)
{
    if (column->is_right && c->columns < width)
        (void)tt_glyph_spaces(out, width - c->columns);
    size_t from = out->len;
    if (*c->lead != '\0') {
        (void)tt_glyph_ink(out, TT_MOOD_FAINT, &table->style);
        (void)tt_buf_text(out, c->lead);
        (void)tt_glyph_ink(out, TT_MOOD_PLAIN, &table->style);
    }
    bool is_inked = c->mood != TT_MOOD_PLAIN && *c->text != '\0';
    if (is_inked)
        (void)tt_glyph_ink(out, c->mood, &table->style);
    bool loses_middle = c->columns > width && column->least < 0 && c->lead_columns < width;
    if (loses_middle)
        put_ends(c->text, width - c->lead_columns, &table->style, out);
    else
        (void)tt_buf_text(out, c->text);
    if (is_inked)
        (void)tt_glyph_ink(out, TT_MOOD_PLAIN, &table->style);
    if (c->columns > width && !loses_middle) {
        tt_style cut = table->style;
        cut.columns = (int32_t)width;
        (void)tt_glyph_cut(out, from, &cut);
    } else if (!column->is_right && !is_last && c->columns < width) {
        (void)tt_glyph_spaces(out, width - c->columns);
    }
}

static void put_row(const tt_table *table, const size_t *widths, const cell *cells, tt_buf *out)
{
    size_t from = out->len, last = table->width;
    while (last > 1 && (cells[last - 1].columns == 0 || widths[last - 1] == 0))
        last--; /* no spaces at the end */
    for (size_t c = 0; c < last; c++) {
        if (c > 0 && widths[c] == 0)
            continue;
        if (c > 0)
            (void)tt_glyph_spaces(out, GAP);
        put_cell(table, &table->columns[c], widths[c], &cells[c], c + 1 == last, out);
    }
    (void)tt_glyph_cut(out, from, &table->style);
    (void)tt_buf_text(out, "\n");
}

tt_status tt_table_render(const tt_table *table, tt_buf *out)
{
    size_t widths[COLUMNS_MAX];
    if (table == NULL || table->st < 0)
        return TT_ENOMEM;
    assert(table->count % table->width == 0);
    measure(table, widths);
    for (size_t i = 0; out->st == TT_OK && i < table->count; i += table->width)
        put_row(table, widths, table->cells + i, out);
    return out->st;
}
