/* store.h -- writes one run file.
 *
 * For record.  Used by one thread at a time.  After a failure nothing more may be
 * asked of it but close, which then leaves the file as it is.
 *
 * add and note collect; flush writes what was collected as one block; value
 * writes its own block at once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_STORE_H
#define TT_STORE_STORE_H

#include "site/sites.h"
#include "store/block.h"
#include "store/index.h"
#include "store/points.h"
#include "store/value.h"

typedef struct tt_store {
    int fd; /* -1: none, or forgotten after a fork */
    uint32_t id;
    uint64_t sequence;   /* of the next block */
    int64_t end;         /* where the next block goes */
    int64_t reserved;    /* room asked for up to here */
    int64_t reserve_max; /* most to ask for at once */
    tt_index index;
    int32_t sites_written;
    tt_buf body;         /* sections collected for the next batch */
    tt_span steps;       /* of those */
    int64_t indexed_end; /* end of the latest index block */
    int64_t index_bytes; /* its length */
    uint32_t blocks_since_index;
    int64_t damaged;  /* points of before that could not be read back */
    tt_points merged; /* scratch of merge.c */
    tt_buf scratch;
    /* max_bytes: see room.c */
    int64_t max_bytes;                   /* 0: no limit */
    int64_t punched;                     /* bytes given back */
    int64_t value_bytes;                 /* of blocks of values in this session */
    uint32_t strides[TT_THINNED_COUNT_]; /* of a file that is continued; 0: it was not thinned */
    tt_offsets segments;                 /* starts of stretches that hold values, oldest first */
    tt_offsets used_at;                  /* of each: `end` when a value in it was last referred to */
    bool is_full;                        /* no room for values: none is taken any more */
    bool has_told_size;                  /* a note says that a value is larger than max_bytes */
    bool is_failed;
    void *packer; /* ZSTD_CCtx, owned; NULL: values are not compressed */
} tt_store;

/* Makes or continues the file.  The sites must be empty; a file that is continued
 * fills them. */
tt_status tt_store_open(tt_store *store, const char *path, tt_sites *sites,
                        const tt_recorder_options *options, tt_error *err);
/* Writes footer and end (unless something failed before), frees everything. */
tt_status tt_store_close(tt_store *store, tt_error *err);
/* Writes footer and end into a file that was put together by repair.  The index
 * is used up. */
tt_status tt_store_finish(int fd, uint32_t id, uint64_t sequence, int64_t at, tt_index *index,
                          tt_error *err);
/* In a forked child: the file is the parent's. */
void tt_store_forget(tt_store *store);

tt_status tt_store_add(tt_store *store, int32_t site, const tt_points *points, tt_error *err);
tt_status tt_store_note(tt_store *store, int64_t step, int64_t time, const char *text, size_t len,
                        tt_error *err);
/* Adds a section that texts.c looks for: a module, a mesh, a placement. */
tt_status tt_store_section(tt_store *store, tt_section kind, const void *bytes, size_t len,
                           tt_error *err);
void tt_store_lost(tt_store *store, int64_t events, int64_t bytes);
tt_status tt_store_flush(tt_store *store, tt_error *err);
/* After a flush: puts points, which are in order, between those of before that are at the end of a site.  Where
 * these are in a large chunk already, the points before its end are left out. */
tt_status tt_store_insert(tt_store *store, int32_t site, const tt_record *const *records, uint32_t count,
                          tt_error *err);
/* After a flush: merges the small chunks of a site that has many; at the end of the run, some.  The result is
 * in the next batch. */
tt_status tt_store_tidy(tt_store *store, int32_t site, bool is_end, tt_error *err);
/* After a flush: writes an index block if it is time. */
tt_status tt_store_index_if_due(tt_store *store, tt_error *err);
/* Writes one piece; *before is where the piece before it is (0: this is the
 * first) and becomes where this one is.  *before stays 0 if there is no room. */
tt_status tt_store_value(tt_store *store, const tt_value_head *piece, const void *bytes, int64_t *before,
                         tt_error *err);
/* A value at this place was referred to again. */
void tt_store_value_used(tt_store *store, int64_t at);

/* ---- for the other files of the writer ---- */

/* Writes a block. */
tt_status tt_store_put(tt_store *store, tt_block_kind kind, tt_span steps, const tt_buf *body,
                       const void *payload, size_t payload_len, tt_error *err);
/* Adds a chunk to the batch; one that covers others takes their place. */
tt_status tt_store_put_chunk(tt_store *store, int32_t site, int64_t first, const tt_points *points,
                             tt_error *err);
/* Adds a section of two numbers to the batch. */
void tt_store_put_pair(tt_store *store, tt_section kind, int64_t first, int64_t second);
/* room.c */
tt_status tt_store_make_room(tt_store *store, const tt_value_head *piece, bool *has_room, tt_error *err);
void tt_store_value_written(tt_store *store, int64_t at, bool is_first);
/* merge.c */
/* Adds the points of a chunk to store->merged. */
tt_status tt_store_read_chunk(tt_store *store, int32_t site, const tt_index_chunk *entry);
void tt_store_look_back(tt_store *store, int32_t site);

#endif
