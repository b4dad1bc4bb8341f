/* dot.h -- writes DOT, Graphviz's language, into a buffer.
 *
 * Our own text is written as it is.  Names and code of users go through the functions that
 * escape: HTML-like labels, quoted attributes and tooltips each need another escape.
 * The buffer keeps the first failure.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DOT_H
#define TT_REPORT_DOT_H

#include "base/buf.h"

typedef struct tt_dot {
    tt_buf *out;    /* borrowed */
    tt_buf visible; /* owned; the text being escaped */
} tt_dot;

void tt_dot_put(tt_dot *dot, const char *text); /* our own text */
void tt_dot_printf(tt_dot *dot, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Untrusted text on one line of an HTML-like label: control characters are shown, spaces stay,
 * and beyond `columns` characters it is cut with an ellipsis (0: never). */
void tt_dot_html(tt_dot *dot, const char *text, size_t len, size_t columns);
/* The same inside of a quoted attribute, and of a tooltip, whose backslashes Graphviz reads twice. */
void tt_dot_quoted(tt_dot *dot, const char *text, size_t len);
void tt_dot_tip(tt_dot *dot, const char *text, size_t len);

#endif
