/* description.h -- one line about a tensor, kept until its room is known.
 *
 * For trees, which learn only when they are drawn how much room a line has.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_DESCRIPTION_H
#define TT_REPORT_DESCRIPTION_H

#include "base/buf.h"
#include "report/spark.h"

typedef struct tt_description {
    tt_facts facts; /* hist is NULL: its cells are below */
    double cells[TT_SPARK_CELLS];
    size_t cell_count; /* 0: no sparkline */
} tt_description;

/* Draws the facts' histogram; the rest stays borrowed from them. */
tt_status tt_description_prepare(const tt_facts *facts, tt_description *out);
/* Appends the line, with as many of its parts as fit into columns (0: all); it
 * may still be longer.  On failure out is as it was. */
tt_status tt_description_append(const tt_description *line, size_t columns, const tt_style *style,
                                tt_buf *out);

#endif
