/* thin.h -- keeps a run that lasts for weeks within its disk.
 *
 * For the writer alone.  Every point comes by here.  While the file is small all are written.  Then
 * only those of every 2nd, 4th, 8th … step are, and the others wait in a ring of the last few hundred
 * steps: where something happens (NaN, a spike, a note, the end) the ring is written too.
 *
 * Strides are powers of two, and the first point of a site in each stride is written: so ranks
 * with different files have the steps of the sparser one in common without talking, and a site that is recorded
 * seldom stays so.  Numbers, which are small, are thinned last.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_RECORD_THIN_H
#define TT_RECORD_THIN_H

#include "store/store.h"

typedef struct tt_thin_site {
    int64_t kept[2]; /* the last step that was written, in training and in evaluation; -1: none */
    double level, spread, furthest; /* of its size, for spikes; furthest: the largest, in spreads */
    uint32_t seen;
    bool is_bad; /* its last point held NaN or Inf */
} tt_thin_site;

typedef struct tt_thin_class {
    uint32_t stride;                 /* 1: every step */
    uint32_t next_stride;            /* 0: none is planned ... */
    int64_t next_from;               /* ... from this step on */
    int64_t look_step, look_spent;   /* when to look again: at this step, or when so much is written */
    int64_t steps, last_step, bytes; /* written in this session */
} tt_thin_class;

typedef struct tt_thin {
    int64_t disk; /* most bytes; 0: any */
    tt_thin_class of[TT_THINNED_COUNT_];
    tt_thin_site *site; /* owned */
    size_t site_cap;
    tt_record *ring;     /* owned; NULL: nothing is thinned yet */
    uint64_t first, end; /* slots of the ring in use; they count up */
    int64_t step;        /* the latest */
    int64_t whole_from;  /* steps from here on are all in the file or the ring */
    int64_t keep_until;  /* steps up to this one are written whole */
    int64_t wanted_from; /* steps of the ring from here on are to be written; INT64_MAX: none */
    int64_t spiked_step; /* so many sites jumped in it */
    uint32_t spikes;
    int64_t allotted, dumped;        /* bytes that the ring may take until the next look, and has taken */
    int64_t told_stride, told_bytes; /* of tensors, for the program: 0: nothing */
    bool has_told;
} tt_thin;

void tt_thin_open(tt_thin *thin, const tt_store *store, int64_t disk);
void tt_thin_free(tt_thin *thin);
/* Takes a point that is not to be written now.  False: it is to be written. */
bool tt_thin_holds(tt_thin *thin, const tt_record *record);
/* The run ends: all that the ring has is wanted. */
void tt_thin_end(tt_thin *thin);
/* Something has happened at this step: the steps before it are wanted. */
void tt_thin_happened(tt_thin *thin, int64_t step);
/* Takes the next wanted record out of the ring, from *at on (0 at first); NULL: no more. */
tt_record *tt_thin_take(tt_thin *thin, uint64_t *at);
static inline bool tt_thin_wants(const tt_thin *thin)
{
    return thin->wanted_from != INT64_MAX;
}
/* Says in the file which steps it has; the ring's wanted records are taken. */
tt_status tt_thin_taken(tt_thin *thin, tt_store *store, int64_t bytes, tt_error *err);
/* So many bytes of a site's points were written. */
void tt_thin_spent(tt_thin *thin, const tt_record *record, size_t bytes);
/* After a batch: may change the strides. */
tt_status tt_thin_look(tt_thin *thin, tt_store *store, tt_error *err);

#endif
