/* site.h -- what a page says about one site.  For page only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_PAGE_SITE_H
#define TT_PAGE_SITE_H

#include "base/json.h"

/* How many more sites may have histograms, and how many a kept tensor. */
typedef struct tt_page_room {
    int32_t histograms, values;
} tt_page_room;

/* Writes members of the object that is open: the latest point as tt.show prints it and in full,
 * histograms over the steps, and a few elements of the tensor that was kept last.  found: as
 * tt_run_look found it; file >= 0. */
tt_status tt_page_put_site(tt_json *json, tt_run *run, int32_t site, const tt_latest *found,
                           tt_page_room *room);
/* A number as text, with the digits of float32. */
void tt_page_put_number(tt_json *json, const char *name, double x);

#endif
