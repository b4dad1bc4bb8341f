/* thin.h -- keeps a run that lasts for weeks within its disk.
 *
 * For the writer alone.  Every point comes by here.  While the run is short all are written.  Then
 * only those of every 2nd, 4th, 8th ... step are, and the others wait in a ring of the last few hundred
 * steps: where something happens (NaN, a spike, a note, the end) the ring is written too.
 *
 * What is written follows from the points alone, in the order in which they were recorded: from their steps and
 * what each is estimated to take, never from how large the batches are or how fast the disk is.  So the same
 * training writes the same steps again, and ranks with equal tensors write the same steps without talking.
 * Strides are powers of two, and the first point of a site in each stride is written: ranks that differ
 * have the steps of the sparser one in common, and a site that is recorded seldom stays so.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_RECORD_THIN_H
#define TT_RECORD_THIN_H

#include "store/store.h"

typedef struct tt_thin_site {
    int64_t kept[2];  /* the last step that was written, in training and in evaluation; -1: none */
    int64_t bad_step; /* the last step in which it held NaN or Inf; -1: none */
    double level, spread, furthest; /* of its size, for spikes; furthest: the largest, in spreads */
    uint32_t seen;
    bool is_known; /* its name was looked at: */
    bool is_key;   /* a loss or a norm of gradients, each of whose jumps counts */
} tt_thin_site;

/* Bytes are estimates. */
typedef struct tt_thin_class {
    uint32_t stride;               /* 1: every step */
    int64_t spent;                 /* of the points that were written because of the stride */
    int64_t seen_step, seen_spent; /* as it was at the last look */
    int64_t look_step, look_spent; /* when to look again: at this step, or when so much is spent ... */
    int64_t hurry_spent;           /* ... or at once */
    int64_t changed_step;          /* where the stride changed, if the file does not say so yet; -1 */
} tt_thin_class;

typedef struct tt_thin {
    int64_t disk;  /* most bytes; 0: any */
    int64_t worth; /* of points, by their estimates, that fit into it */
    const tt_sites *sites;
    tt_thin_class of[TT_THINNED_COUNT_];
    tt_thin_site *site; /* owned */
    size_t site_cap;
    int64_t step;                    /* the latest */
    int64_t first_step;              /* of this session; -1: none yet */
    int64_t step_bytes, whole_bytes; /* of the tensors of this step so far; of a step, usually */
    tt_record *ring;                 /* owned; NULL: nothing is thinned yet */
    uint64_t first, end;             /* slots of the ring in use; they count up */
    int64_t ring_from;               /* what the ring has lost is of steps before this one */
    int64_t whole_from;              /* all points of steps from here on are in the file or wanted */
    int64_t keep_until;              /* steps up to this one are written whole */
    int64_t wanted_from;           /* steps of the ring from here on are to be written; INT64_MAX: none */
    int64_t said_from, said_until; /* whole steps, if the file does not say so yet; INT64_MAX: it does */
    int64_t events_spent;          /* on steps where something happened */
    int64_t spiked_step;           /* so many sites jumped in it */
    uint32_t spikes;
    int64_t file_base;               /* bytes of the file that were there before, but for values */
    int64_t told_stride, told_bytes; /* of tensors, for the program; 0: nothing */
    bool has_told;
} tt_thin;

void tt_thin_open(tt_thin *thin, const tt_store *store, int64_t disk);
void tt_thin_free(tt_thin *thin);
/* Takes a point that is not to be written now.  False: it is to be written. */
bool tt_thin_holds(tt_thin *thin, const tt_record *record);
/* The run ends: the last steps are wanted. */
void tt_thin_end(tt_thin *thin);
/* Something has happened at this step: the steps before it are wanted. */
void tt_thin_happened(tt_thin *thin, int64_t step);
/* Are there steps to be taken out of the ring, or is there something to be said in the file?  Then the
 * batch ends here, so that what is written does not depend on its size. */
bool tt_thin_is_due(const tt_thin *thin);
/* Takes the next wanted record out of the ring, from *at on (0 at first); NULL: no more. */
tt_record *tt_thin_take(tt_thin *thin, uint64_t *at);
static inline bool tt_thin_wants(const tt_thin *thin)
{
    return thin->wanted_from != INT64_MAX;
}
/* At the end of a batch: says in the file which steps it has, and looks how large it is. */
tt_status tt_thin_say(tt_thin *thin, tt_store *store, tt_error *err);

#endif
