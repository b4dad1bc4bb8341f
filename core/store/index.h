/* index.h -- where everything in one run file is.
 *
 * For store only.  The writer keeps one up to date and writes it down now and
 * then; a reader loads the latest and adds the blocks that follow it.
 *
 * Points of a site are numbered from 0.  A chunk covers a range of numbers;
 * chunks that were merged are covered by the larger one that came later.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_INDEX_H
#define TT_STORE_INDEX_H

#include "base/wire.h"
#include "site/sites.h"
#include "store/block.h"
#include "store/chunk.h"

enum {
    TT_INDEX_CHUNKS_MAX = 1 << 20, /* of a file; 40 MB of memory */
    /* A clock moves on, so that a point takes at least a byte of its chunk.  So many
     * points of a file may take less: those of a program that gives times of its own. */
    TT_INDEX_UNPAID_MAX = 1 << 20,
    TT_INDEX_OFFSETS_MAX = 1 << 20,
    TT_BLOCK_CHUNK_MAX = 32 << 20, /* bytes of a chunk */
};

/* Sections of a batch, an index or a footer: kind and length as varints, bytes. */
typedef enum tt_section {
    TT_SECTION_SITES = 1, /* number of the first; length and name of each */
    TT_SECTION_CHUNK = 2,
    TT_SECTION_NOTE = 3,   /* step, time (signed varints), text */
    TT_SECTION_LOST = 4,   /* events and bytes dropped so far */
    TT_SECTION_HOLES = 5,  /* from, to: values in there were evicted */
    TT_SECTION_INDEX = 6,  /* of one site */
    TT_SECTION_PLACES = 7, /* blocks with sessions, blocks with what texts.c reads */
    TT_SECTION_LATEST = 8, /* a chunk with the latest point of a site */
    TT_SECTION_MODULE = 9, /* length of the path, path, class */
    TT_SECTION_MESH = 10,  /* these two: placement.c */
    TT_SECTION_PLACEMENT = 11,
    TT_SECTION_CHAIN = 12,   /* site, points, chain of their digests and sums */
    TT_SECTION_SETTING = 13, /* step (signed), length of the key, key, value */
    TT_SECTION_THINNED = 14, /* from step (signed), stride, tt_thinned_kind */
} tt_section;

typedef struct tt_index_site {
    tt_index_chunk *chunks; /* owned; ascending, never overlapping */
    uint32_t count;
    size_t cap;
    int64_t points;    /* number of the next one */
    int64_t stored;    /* points in chunks: fewer than that where some are lost */
    int64_t nonfinite; /* number of the first point with NaN or Inf; -1: none ... */
    int64_t scanned;   /* ... among the points before this one */
    int64_t latest_at; /* of a chunk with the latest point alone, while it is the latest; 0: none */
    uint32_t latest_len;
    uint64_t chain;  /* of tt_points_chain, over ... */
    int64_t chained; /* ... so many points from the first on */
} tt_index_site;

/* The chain of all points of a row; 0: it is not known. */
static inline uint64_t tt_index_chain(const tt_index_site *row)
{
    bool has_all = row->points > 0 && row->chained == row->points && row->stored == row->points;
    return has_all ? row->chain | 1 : 0;
}

typedef struct tt_offsets {
    int64_t *at; /* owned; ascending */
    uint32_t count;
    size_t cap;
} tt_offsets;

typedef struct tt_index {
    tt_sites *sites;    /* borrowed */
    tt_index_site *row; /* owned; of each site */
    int32_t count;
    size_t cap;
    uint32_t chunks;    /* of all sites */
    int64_t points;     /* of all sites */
    int64_t unpaid;     /* points beyond the bytes of their chunks */
    int64_t refused_at; /* after TT_ELIMIT: the chunk that was too many */
    int64_t insertions; /* chunks that put points between others: numbers of points have changed */
    tt_span steps;
    tt_offsets sessions, notes;
    tt_offsets holes; /* from, to, from, to ...; a writer's are in order of eviction */
    bool has_mesh;    /* other ranks have files, too: chains are written down */
    int64_t lost_events, lost_bytes;
} tt_index;

void tt_index_free(tt_index *index);   /* not the sites */
void tt_index_forget(tt_index *index); /* the rows of all sites */
tt_status tt_index_row(tt_index *index, int32_t site, tt_index_site **out);
/* Adds a chunk behind those of its site, or in place of the last ones, if it covers them.
 * TT_ELIMIT: the file claims more points than it can hold. */
tt_status tt_index_add(tt_index *index, int32_t site, const tt_index_chunk *chunk);
/* The first chunk with points of this number or above; row->count: none. */
uint32_t tt_index_from(const tt_index_site *row, int64_t point);
/* Forgets chunk k of a site; its points are a gap from now on. */
void tt_index_drop(tt_index *index, int32_t site, uint32_t k);
tt_status tt_offsets_add(tt_offsets *offsets, int64_t at);
uint32_t tt_offsets_upto(const tt_offsets *offsets, int64_t at); /* how many are at `at` or before */
/* Puts the holes in order, so that tt_index_is_hole can find them. */
void tt_index_sort_holes(tt_index *index);
bool tt_index_is_hole(const tt_index *index, int64_t at);

/* Parses the bytes of the chunk of an entry. */
tt_status tt_chunk_of(tt_chunk *out, int32_t site, const tt_index_chunk *entry, const void *bytes);
/* Reads and parses the chunk of an entry of a file of this size; scratch must outlive *out. */
tt_status tt_chunk_read(int fd, int64_t size, int32_t site, const tt_index_chunk *entry, tt_buf *scratch,
                        tt_chunk *out);

/* Everything as sections, LATEST apart. */
void tt_index_pack(const tt_index *index, tt_buf *out);
/* Appends a section, or hands on its failure. */
void tt_section_put(tt_buf *out, tt_section kind, const tt_buf *section);
/* Names from number `from` on, as one section; none if there are no new ones. */
void tt_sites_pack(const tt_sites *sites, int32_t from, tt_buf *out);
/* Moves to the next section of a body.  False: there is none, or the body is bad. */
bool tt_section_next(tt_cursor *body, uint64_t *kind, tt_cursor *section);
/* Reads a section that says which steps are there; false: it makes no sense. */
bool tt_thinned_read(tt_cursor *section, tt_thinned *out);
/* Takes in the sections of a block's body that starts at `at` in the file. */
tt_status tt_index_read(tt_index *index, const void *body, size_t len, int64_t block_at, int64_t body_at);

#endif
