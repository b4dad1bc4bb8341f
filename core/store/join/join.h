/* join.h -- a run of many ranks as a run of one.
 *
 * A joined run has one file, which is made of the files of another run: each of its points is that of the whole
 * tensor, put together from the parts that the ranks hold.  A site is joined when it is first asked for, into
 * memory, in the form in which a file would have it; so everything that reads runs reads joined ones.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_JOIN_H
#define TT_STORE_JOIN_H

#include "store/run.h"

/* What a joined run has beside its rows. */
struct tt_join {
    tt_run *parts;        /* borrowed */
    tt_joined_site *site; /* owned; of each site */
    bool *is_made;        /* owned; its row is there */
    int32_t count;        /* of sites */
    tt_buf bytes;         /* the chunks, one behind the other */
};

/* Makes the row of a site, if it is not there. */
void tt_join_make(tt_join *join, tt_tap *tap, int32_t site);
/* Makes those of all sites, file by file: quicker than one by one. */
void tt_join_make_all(tt_join *join, tt_tap *tap);
void tt_join_free(tt_join *join); /* NULL is fine */

#endif
