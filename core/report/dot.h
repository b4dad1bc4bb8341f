/* dot.h -- the parts of the DOT writer that only the core's charts need.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DOT_H
#define TT_REPORT_DOT_H

#include "base/buf.h"

/* Names and code of users: each needs another escape. */
typedef enum tt_dot_where {
    TT_DOT_LABEL,     /* an HTML-like label: spaces stay */
    TT_DOT_ATTRIBUTE, /* between quotes */
    TT_DOT_TOOLTIP,   /* likewise; Graphviz reads its backslashes twice */
} tt_dot_where;
/* Appends untrusted text on one line: control characters are shown, and beyond `columns`
 * characters it is cut with an ellipsis (0: never). */
void tt_dot_text(tt_buf *out, tt_dot_where where, const char *text, size_t len, size_t columns);

/* Begins an attribute; the caller appends its value. */
void tt_dot_key(tt_dot *dot, const char *key);
/* Appends untrusted text in quotes, line by line. */
void tt_dot_quote(tt_buf *out, tt_dot_where where, const char *text);

#endif
