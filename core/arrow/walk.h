/* walk.h -- a run, as the tables walk through it.
 *
 * For arrow only.  A table fills batches from one run after the other; a walk holds the run and where the table is.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_ARROW_WALK_H
#define TT_ARROW_WALK_H

#include "arrow/batch.h"
#include "arrow/name.h"
#include "store/run.h"

typedef struct tt_arrow_site {
    const char *name; /* borrowed from the run */
    int32_t number;
} tt_arrow_site;

typedef struct tt_arrow_walk {
    /* borrowed from what was asked for */
    const char *name; /* of the run */
    const char *glob;
    int64_t first_step, last_step;
    const int32_t *ranks; /* NULL: ranks are joined where they can be, else all */
    size_t rank_count;
    bool is_partial; /* what cannot be read is left out and counted */
    tt_arrow_losses lost;

    tt_run *run;   /* owned; NULL: it could not be opened ... */
    tt_error why;  /* ... because of this */
    tt_run *whole; /* owned; its ranks as one; NULL: they are not joined */
    tt_arrow_modules modules;
    tt_arrow_site *sites; /* owned; that were asked for, by name */
    size_t site_count, sites_cap;
    size_t site; /* where the walk is: of these, ... */
    int32_t file;
    uint32_t chunk;
    int64_t next; /* of whatever else a table counts */
    bool is_done; /* the table has all of this run */

    /* memory of tables, kept from chunk to chunk */
    uint64_t *cells; /* owned */
    size_t cells_cap;
    unsigned char *marks; /* owned */
    size_t marks_cap;
    tt_buf bytes;
    tt_points points;
} tt_arrow_walk;

/* A chunk of points on the walk. */
typedef struct tt_arrow_stretch {
    const char *site;
    int32_t rank; /* -1: of the whole job */
    const tt_tap *tap;
    const tt_index_site *row;
    const tt_index_chunk *entry;
} tt_arrow_stretch;

static inline tt_run *tt_arrow_walk_run(const tt_arrow_walk *walk)
{
    return walk->whole != NULL ? walk->whole : walk->run;
}
bool tt_arrow_walk_has_rank(const tt_arrow_walk *walk, int32_t rank);
/* Moves to the next chunk of the sites, ranks and steps that were asked for; false: there is none.  They come by
 * name, rank, and as they were recorded. */
bool tt_arrow_walk_next(tt_arrow_walk *walk, tt_arrow_stretch *out);
/* Forgives what cannot be read, if that was asked for; otherwise says so. */
tt_status tt_arrow_walk_fail(tt_arrow_walk *walk, const tt_arrow_stretch *stretch, tt_status st,
                             tt_error *err);

/* Puts rows until the batch is full or the run has no more; then is_done is set. */
typedef tt_status tt_arrow_fill(tt_arrow_walk *walk, tt_arrow_batch *batch, tt_error *err);

typedef struct tt_arrow_kind {
    const char *name, *about;
    const tt_arrow_field *fields;
    size_t count;
    tt_arrow_fill *fill;
    bool wants_damaged; /* also runs that cannot be opened */
} tt_arrow_kind;

extern const tt_arrow_kind tt_arrow_points, tt_arrow_histograms, tt_arrow_runs, tt_arrow_sites,
    tt_arrow_notes, tt_arrow_settings, tt_arrow_findings;

#define TT_ARROW_KIND(table, words, columns, ...)                                                    \
    {                                                                                                \
        .name = table, .about = words, .fields = columns, .count = sizeof columns / sizeof *columns, \
        __VA_ARGS__                                                                                  \
    }

#endif
