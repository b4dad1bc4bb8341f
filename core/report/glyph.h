/* glyph.h -- text as a terminal shows it: safe, measured, cut.
 *
 * Every untrusted text goes through tt_glyph_append before it reaches a terminal.  Results are
 * those of the buffer, which keeps the first failure: look at the last of several.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GLYPH_H
#define TT_REPORT_GLYPH_H

#include "base/buf.h"

/* Starts the colour of a mood where the style is coloured.  These escape sequences are the only
 * ones that we write; any other is shown, not obeyed. */
tt_status tt_glyph_ink(tt_buf *out, tt_mood mood, const tt_style *style);

typedef enum tt_trust {
    TT_TRUST_NONE, /* a name or a text of the user: no ink in it is obeyed */
    TT_TRUST_INK,  /* a text that we wrote, parts of it the user's */
} tt_trust;

/* Appends text on one line: control characters, bytes that are not UTF-8 and
 * characters that reorder text are escaped ("\n", "\x1b", "\u202e"); beyond
 * ASCII as well where the style asks for it. */
tt_status tt_glyph_append(tt_buf *out, const char *text, tt_trust trust, const tt_style *style);
tt_status tt_glyph_bytes(tt_buf *out, const char *text, size_t len, tt_trust trust,
                         const tt_style *style); /* the same with a length */
tt_status tt_glyph_spaces(tt_buf *out, size_t n);

size_t tt_glyph_width(uint32_t code); /* columns of a character: 0, 1 or 2 */
/* The columns that a text takes on a terminal when tt_glyph_append writes it. */
size_t tt_glyph_columns(const char *text, tt_trust trust, const tt_style *style);

/* Cuts the line that begins at byte `from` of out to the style's columns; the
 * last one is then an ellipsis.  The line is one that tt_glyph_append made. */
tt_status tt_glyph_cut(tt_buf *out, size_t from, const tt_style *style);

/* ---- description.c: numbers of a tensor ------------------------------------- */

/* Each returns out, or a text of its own. */
const char *tt_facts_short(double x, char out[TT_NUMBER_TEXT]); /* tt_number_short; -0 is 0 */
const char *tt_facts_integer(tt_dtype dtype, int64_t x, char out[TT_NUMBER_TEXT]); /* also True, False */
/* The smallest or largest value, as its type writes it. */
const char *tt_facts_bound(const tt_stats *s, bool is_max, char out[TT_NUMBER_TEXT]);

/* ---- spark.c ---------------------------------------------------------------- */

enum { TT_SPARK_CELLS = 9 }; /* odd, so that a bell has its peak in the middle */

/* Shares the counts of logarithmic bins out among cells of one width that
 * cover min to max, which the bins must hold.  Counts within a bin are treated as
 * spread evenly.  is_whole: only whole numbers occur; there are then no more
 * cells than numbers.  Returns the number of cells; 0 where there is nothing to
 * draw: no two different values. */
size_t tt_spark_cells(const tt_hist_bin *bins, size_t count, double min, double max, bool is_whole,
                      double cells[TT_SPARK_CELLS]);

/* Draws them: the fullest cell is full, and one that is not empty looks so. */
tt_status tt_spark_append(const double *cells, size_t count, const tt_style *style, tt_buf *out);

#endif
