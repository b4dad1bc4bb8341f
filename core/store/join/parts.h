/* parts.h -- what the files that join ranks share.  For this folder only.
 *
 * parts.c chooses the files of a site that have to be read and reads them; point.c puts together what the
 * ranks hold of one step and call; series.c does that for whole series at once, where all ranks recorded alike,
 * with columns.c; addends.c adds up addends; norm.c has the norm of all gradients; row.c makes the
 * rows of sites.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_JOIN_PARTS_H
#define TT_STORE_JOIN_PARTS_H

#include "store/join/join.h"

/* ---- the parts --------------------------------------------------------------- */

/* The points of one rank. */
typedef struct tt_part {
    int32_t file;
    tt_points points;
} tt_part;

/* One of them. */
typedef struct tt_part_point {
    int64_t step;
    uint32_t call, i; /* i: in its part */
    int32_t part;
} tt_part_point;

enum { TT_JOIN_BINS = 4096 }; /* of a histogram; one with more is not joined */

typedef struct tt_gathering {
    tt_run *run; /* of the parts */
    int32_t site;
    int32_t *files; /* owned; those that have to be read */
    size_t file_count;
    int32_t ranks;  /* that have points of the site, those that need not be read included */
    tt_part *parts; /* owned */
    size_t part_count;
    tt_part_point *entries; /* owned; of all parts, by step and call */
    size_t count, cap;
    tt_hist_bin *bins; /* owned; TT_JOIN_BINS of them */
    bool has_unknown;  /* of some axes nothing is known, or placements change */
    bool trusts;       /* along such axes all ranks have had the same so far */
    bool repeats;      /* along axes that split the batch too: it does not depend on the batch */
} tt_gathering;

/* Chooses the files of a site: of those that hold the same by their footers, and ought to, the first. */
tt_status tt_gathering_choose(tt_gathering *g);
/* Reads the points of one file; damaged ones are left out. */
tt_status tt_part_read(const tt_gathering *g, int32_t file, tt_points *out, bool *is_damaged);
/* Reads all files that were chosen. */
tt_status tt_gathering_read(tt_gathering *g);
void tt_gathering_free(tt_gathering *g);
/* Do the first ranks, which have other parts of the batch, begin with the same?  Constants do not count. */
bool tt_join_may_repeat(const tt_gathering *g);
/* Is it a ratio that each rank computes of its own part?  That of the whole is about their mean. */
bool tt_join_is_ratio(const char *name);

/* ---- one step and call ---------------------------------------------------------- */

/* What one rank holds. */
typedef struct tt_holding {
    tt_point point;
    const tt_placement *placement; /* NULL: none */
    const tt_mesh *mesh;
    uint64_t grid;    /* of the mesh */
    int64_t number;   /* of its class, in the order of the mesh */
    bool is_repeated; /* all parts of the batch have it */
    const tt_part_point *from;
} tt_holding;

typedef enum tt_outcome {
    TT_JOINED,
    TT_INCOMPLETE, /* parts are missing */
    TT_ADDENDS,
    TT_UNPLACED, /* it is not known how they belong together */
} tt_outcome;

typedef struct tt_whole {
    tt_point point;
    tt_hist *hist; /* owned; NULL: none */
    int64_t parts, found;
    bool is_unplaced, is_unequal;
} tt_whole;

/* Sets placement, mesh and grid at a step. */
void tt_holding_place(const tt_gathering *g, int32_t file, int64_t step, tt_holding *h);
/* Finds the class of a rank and the number of classes; false: its placement does not tell.  Along an axis of
 * which nothing is known ranks are replicas if they have the same (*is_guess): that is seen. */
bool tt_holding_find_class(tt_holding *h, int64_t *classes, bool *is_guess);
bool tt_holding_is_addend(const tt_holding *h);
/* Do two ranks speak of the same grid of ranks, and of the same layout on it? */
bool tt_holding_is_alike(const tt_holding *a, const tt_holding *b);
/* Elements of the whole; -1: not known.  Each part of a batch is a tensor of this shape. */
int64_t tt_holding_count_whole(const tt_holding *h);
/* Could a tensor have these counts?  A file may say anything, and sums of it must not overflow. */
static inline bool tt_join_can_count(int64_t count, int64_t nan, int64_t posinf, int64_t neginf,
                                     int64_t zeros)
{
    return (count <= INT64_C(1) << 40) & (nan <= count) & (posinf <= count) & (neginf <= count) &
           (zeros <= count);
}
bool tt_join_is_possible(const tt_stats *s);
/* Adds the exact sums of integers, which tt_stats_merge leaves alone. */
void tt_join_merge_integers(tt_stats *into, const tt_stats *from);
void tt_join_merge(tt_stats *into, const tt_stats *from);
/* The element of a tensor that has one, and the statistics of such a tensor. */
double tt_join_number(const tt_stats *s);
tt_stats tt_join_of_number(double x, int32_t dtype);
/* The shape of the whole: that of its placement, or that of a batch whose parts differ in their first size
 * alone; else it is not known.  out: with the statistics of the whole and the shape of the first part. */
void tt_join_find_shape(const tt_holding *const *parts, int64_t count, tt_point *out);
/* Classes that a step and call may have. */
size_t tt_join_room(const tt_gathering *g);
/* Joins what ranks hold of one step and call.  parts: room for so many classes. */
tt_outcome tt_join_point(const tt_gathering *g, tt_holding *all, size_t count, const tt_holding **parts,
                         size_t room, tt_whole *out);

/* The same for addends, if their elements were kept. */
tt_outcome tt_join_addends(const tt_gathering *g, tt_holding *all, size_t count, const tt_holding **parts,
                           size_t room, tt_whole *out);

/* ---- whole series ---------------------------------------------------------------- */

/* The series of a site, summed up part by part. */
typedef struct tt_series {
    const tt_gathering *g;       /* borrowed */
    tt_holding *parts;           /* owned; by class, with the shape of their points */
    int32_t *files;              /* owned; that holds each */
    const tt_holding **in_order; /* owned; the parts */
    int64_t classes, next;       /* next: the part that is added next */
    uint32_t seen;               /* points of that one so far */
    bool is_alike;               /* all ranks recorded alike, as far as was read */
    bool is_number;              /* tensors of no dimension: losses */
    tt_points sum;               /* of the parts before */
    double *totals;              /* owned; of such numbers, of each point */
} tt_series;

/* Sums up the series of several sites of one run; is_alike says of which that could be done. */
void tt_series_sum(tt_series *all, size_t count);
void tt_series_free(tt_series *s);

/* The columns that are read of a part: products, step, call, phase and all of the statistics. */
enum { TT_JOIN_COLUMNS = 24 };
extern const tt_column tt_join_columns[TT_JOIN_COLUMNS];
/* Adds the cells of n points to those of a sum from number `before` on, or to the totals of numbers (NULL: of tensors);
 * moves the pointers.  False: they are of other steps or calls, or cannot be. */
bool tt_join_add_cells(tt_points *sum, double *totals, uint32_t before, const uint64_t **from,
                       uint32_t n);

/* ---- the norm of all gradients ------------------------------------------------------ */

/* Sums of squares by step, over the gradients of all parameters. */
typedef struct tt_norm_step {
    int64_t step;
    double sumsq;
    int32_t sites;
} tt_norm_step;

typedef struct tt_norms {
    tt_norm_step *all; /* owned; ascending */
    size_t count, cap;
    int32_t sites; /* of gradients */
} tt_norms;

bool tt_norms_are(const char *name); /* of a site: does it hold them? */
tt_status tt_norms_read(tt_join *joined, tt_tap *tap, tt_norms *n);
/* The norm at a step; false: not all gradients are whole there. */
bool tt_norms_find(const tt_norms *n, int64_t step, double *out);

/* ---- the row of a site -------------------------------------------------------------- */

typedef struct tt_row_maker {
    tt_join *joined;
    tt_tap *tap;
    int32_t site;
    tt_points points;
    char *record; /* owned; a record and its tail */
    size_t cap;
} tt_row_maker;

/* Counts what became of a step and call, and adds the point if there is one. */
tt_status tt_row_add(tt_row_maker *made, tt_outcome how, const tt_whole *w, int64_t step);
/* Adds the points of a series that was summed up. */
tt_status tt_series_put(const tt_series *s, tt_row_maker *made);
#endif
