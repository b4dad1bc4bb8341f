/* dot.h -- writes DOT, Graphviz's language, into a buffer, which keeps the first failure.
 *
 * Names and code of users go through tt_dot_text: HTML-like labels, quoted attributes and
 * tooltips each need another escape.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DOT_H
#define TT_REPORT_DOT_H

#include "base/buf.h"

typedef enum tt_dot_where {
    TT_DOT_LABEL,     /* an HTML-like label: spaces stay */
    TT_DOT_ATTRIBUTE, /* between quotes */
    TT_DOT_TOOLTIP,   /* likewise; Graphviz reads its backslashes twice */
} tt_dot_where;
/* Appends untrusted text on one line: control characters are shown, and beyond `columns`
 * characters it is cut with an ellipsis (0: never). */
void tt_dot_text(tt_buf *out, tt_dot_where where, const char *text, size_t len, size_t columns);

#endif
