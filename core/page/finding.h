/* finding.h -- what is wrong with a run, in sentences.  For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_FINDING_H
#define TT_PAGE_FINDING_H

#include "base/json.h"

/* Appends the findings about a run to a JSON array, the gravest first:
 *     {"weight": 3, "text": "...", "detail": ["..."], "run": 0, "site": 17, "step": 31,
 *      "rule": "nonfinite", "sites": [17, 4], "fed_by": [[role, site, step, "..."]]}
 * weight: 3 alarm, 2 remark, 1 fine, 0 note.  site -1: none. */
tt_status tt_page_findings(tt_json *json, const tt_page_run *page, int32_t number, tt_histories **seen,
                           tt_error *err);
/* The finding about two runs. */
void tt_page_put_divergence(tt_json *json, const tt_run *a, const tt_diff *diff);
/* Appends one line about a point, as tt.show prints it. */
tt_status tt_page_point_line(const tt_point *point, tt_buf *out);

#endif
