/* run.h -- a run as its readers share it.  For store and view.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_STORE_RUN_H
#define TT_STORE_RUN_H

#include "store/chunk.h"
#include "store/scan.h"

typedef struct tt_known_mesh {
    uint64_t id;
    uint64_t grid; /* a hash of sizes and ranks: all ranks of a mesh have the same */
    tt_mesh mesh;  /* its texts and ranks are in the arena, as the boxes of placements */
} tt_known_mesh;

/* A placement that many sites of a file share. */
typedef struct tt_known_placement {
    uint64_t hash; /* of its bytes */
    tt_placement placement;
} tt_known_placement;

typedef struct tt_site_placement {
    int32_t site;  /* as in the file */
    int32_t order; /* of appearance */
    const tt_known_placement *known;
} tt_site_placement;

typedef struct tt_join tt_join; /* of join.h */

typedef struct tt_tap { /* one file of a run */
    char *path;         /* owned */
    int fd;
    int32_t rank, child;
    tt_sites *sites; /* owned; numbers as in the file */
    tt_index index;
    tt_scan scan;
    int32_t *local; /* owned; of each site of the run: its number in this file; -1: none */
    size_t local_cap;
    int32_t joined;                     /* sites of this file that the run knows */
    tt_arena texts;                     /* of info, notes, modules */
    uint32_t sessions_read, notes_read; /* blocks */
    const char **info;                  /* owned; key, value, ... */
    int32_t info_count;                 /* pairs */
    tt_note *notes;                     /* owned */
    const char *stopped;                /* a note: which exception ended the session */
    int64_t stopped_at;                 /* its block */
    tt_module *modules;                 /* owned */
    tt_setting *settings;               /* owned */
    tt_thinned *thinned;                /* owned */
    tt_known_mesh *meshes;              /* owned */
    tt_site_placement *placements;      /* owned; by site and step */
    const tt_known_placement **known;   /* owned; the different ones, in the arena */
    int32_t note_count, module_count, setting_count, thinned_count, mesh_count, placement_count,
        placements_sorted, known_count;
    size_t note_cap, module_cap, setting_cap, thinned_cap, mesh_cap, placement_cap, known_cap;
    size_t placement_bytes;
    tt_join *join; /* owned; NULL: a file; else its points are made of those of other files */
    size_t text_bytes;
} tt_tap;

struct tt_run {
    char *path; /* owned */
    bool is_folder;
    tt_tap **taps; /* owned, each */
    int32_t count;
    size_t cap;
    tt_sites *sites; /* owned; of all files */
    tt_buf scratch;
    tt_points points; /* the chunk read last ... */
    int32_t points_file;
    int64_t points_at;               /* ... and where it is; -1: none */
    const tt_index_site *points_row; /* ... whose, ... */
    int64_t points_first;            /* ... from which point on */
    bool points_are_whole;           /* with histograms and samples */
    tt_status points_st;             /* TT_EFORMAT: it cannot be read */
    uint64_t *cells;                 /* owned; scratch for columns */
    size_t cells_cap;
    bool notes_missed;
    tt_missed *missed; /* owned */
    size_t missed_count, missed_cap;
};

/* Returns st; notes what could not be read if that is wanted. */
tt_status tt_run_miss(tt_run *run, const tt_tap *tap, tt_status st, int64_t at, int64_t len);

/* The file with the widest stride of tensors; if several have it, the first. */
int32_t tt_run_sparsest(const tt_run *run);
/* Does the exception only say that another rank is gone, or does not answer? */
bool tt_stop_is_consequence(const char *stopped);
/* The file of the rank whose exception was the first, as far as steps tell, and not the consequence of another's;
 * -1: none raised. */
int32_t tt_run_stopped_first(const tt_run *run);
/* A text of the latest session of the first file by its key; NULL: not there. */
const char *tt_run_info(const tt_run *run, const char *key);
int32_t tt_run_module_count(const tt_run *run, int32_t file);
/* The run that a joined one was made of; of any other run itself. */
tt_run *tt_run_parts(tt_run *run);
/* Joins every site of a joined run now: quicker than when each is asked for. */
void tt_run_join_all(tt_run *joined);
/* The mesh of this id, with its grid; NULL: the file has none. */
const tt_known_mesh *tt_run_known_mesh(const tt_run *run, int32_t file, uint64_t id);
/* The row of a site of the run in one file; NULL: it has none. */
tt_index_site *tt_run_row(const tt_run *run, int32_t file, int32_t site);
/* How often points were put between others: whoever has read some by their numbers begins anew when this changes. */
int64_t tt_run_insertions(const tt_run *run);
/* The stride at a step; 1: every step was written. */
int64_t tt_run_stride(const tt_run *run, int32_t file, tt_thinned_kind kind, int64_t step);
tt_status tt_run_texts(tt_tap *tap); /* reads new sessions, notes and modules */
/* A value for each step, the mean of its points of these phases: Inf where a number was
 * not finite or, of var, std, l2 and rms, where the tensor held NaN or Inf.  Steps in which
 * the field is undefined are left out.  left_out: points of other phases. */
tt_status tt_run_course(tt_run *run, int32_t file, int32_t site, tt_field field, uint32_t phases,
                        double *values, size_t cap, size_t *count, size_t *left_out, tt_error *err);
static inline bool tt_phases_hold(uint32_t phases, uint64_t phase)
{
    phase &= 0xff; /* above: the step was skipped */
    return phase < TT_PHASE_COUNT_ ? (phases >> phase & 1) != 0 : (phases & TT_PHASES_TRAIN) != 0;
}
/* Loads a chunk of a row into scratch and parses it. */
tt_status tt_run_chunk(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                       const tt_index_chunk *entry, tt_chunk *out);
/* Unpacks columns of numbers into memory of the run.  cells: of each column, one for each point, which is zero
 * if the point does not have the product, or the column is TT_COLUMN_COUNT_.  columns[0]: the products, unless
 * every point has every column. */
tt_status tt_run_cells(tt_run *run, const tt_chunk *chunk, const tt_column *columns, size_t count,
                       const uint64_t **cells);
/* Both. */
tt_status tt_run_columns(tt_run *run, const tt_tap *tap, const tt_index_site *row,
                         const tt_index_chunk *entry, const tt_column *columns, size_t count,
                         const uint64_t **cells);

/* The columns of TT_STATS_COLUMN_MAP, and of TT_STATS_MORE_MAP. */
#define TT_STATS_COLUMN(name, field, type, read) TT_COLUMN_##name,
enum { TT_STATS_DERIVED = 9, TT_STATS_ALL = 12 }; /* their numbers: of the first map, of both */
/* Reads the statistics of point i from the cells of the first so many of them. */
static inline void tt_stats_of_cells(const uint64_t *const *cells, size_t i, size_t columns,
                                     tt_stats *out)
{
    *out = (tt_stats){ 0 };
#define X(name, field, type, read) out->field = read((*cells++)[i]);
    TT_STATS_COLUMN_MAP(X)
    if (columns == TT_STATS_ALL) {
        TT_STATS_MORE_MAP(X)
    }
#undef X
}

/* Says that something of this file could not be read: "points 3 and on of x". */
tt_status tt_tap_fail(const tt_tap *tap, tt_status st, tt_error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Finds the first point whose stats or scalar has a NaN or an infinity; *index is -1 if
 * there is none.  The footer knows it: no scan. */
tt_status tt_run_first_nonfinite(tt_run *run, int32_t file, int32_t site, int64_t *index, tt_error *err);

#endif
