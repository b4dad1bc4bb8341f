/* glyph.h -- text as a terminal shows it: safe, measured, cut.
 *
 * Every untrusted text goes through tt_glyph_append before it reaches a terminal.  Results are
 * those of the buffer, which keeps the first failure: look at the last of several.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_GLYPH_H
#define TT_REPORT_GLYPH_H

#include "base/buf.h"

/* The only escape sequences that we write; any other is shown, not obeyed. */
#define TT_INK_MAP(X)                                          \
    X(PLAIN, "\x1b[0m")                                        \
    X(FAINT, "\x1b[2m")    /* guides, words between numbers */ \
    X(TYPE, "\x1b[36m")    /* element types */                 \
    X(SPARK, "\x1b[32m")   /* sparklines */                    \
    X(PLACE, "\x1b[35m")   /* devices */                       \
    X(REMARK, "\x1b[33m")  /* constant, all zero, empty */     \
    X(ALARM, "\x1b[1;31m") /* NaN, Inf */

#define X(name, code) TT_INK_##name,
typedef enum tt_ink { TT_INK_MAP(X) TT_INK_COUNT_ } tt_ink;
#undef X

/* Starts an ink where the style is coloured; nothing else otherwise. */
tt_status tt_glyph_ink(tt_buf *out, tt_ink ink, const tt_style *style);

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

#endif
