/* batch.h -- rows of a table as columns in memory, in the form in which Arrow hands them over.
 *
 * For arrow only.  A table is a list of columns; a batch holds those that were asked for.  Rows are put cell by
 * cell, or a stretch of a column is written in place.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_ARROW_BATCH_H
#define TT_ARROW_BATCH_H

#include "arrow/abi.h"
#include "base/buf.h"

typedef enum tt_arrow_type {
    TT_ARROW_INT,    /* int64 */
    TT_ARROW_FLOAT,  /* float64 */
    TT_ARROW_TIME,   /* microseconds since 1970, UTC */
    TT_ARROW_BOOL,   /* bits */
    TT_ARROW_TEXT,   /* UTF-8 */
    TT_ARROW_WORD,   /* UTF-8 by a dictionary: the same few texts again and again */
    TT_ARROW_DIGEST, /* 16 bytes */
} tt_arrow_type;

typedef struct tt_arrow_field {
    const char *name;
    tt_arrow_type type;
    const char *about; /* what it holds, for people */
} tt_arrow_field;

typedef struct tt_arrow_column {
    tt_arrow_type type;
    char *data; /* owned, as all pointers; values; of texts where each begins, of words their numbers */
    size_t cap;
    unsigned char *valid; /* bits; NULL: all are */
    size_t valid_cap;
    int64_t nulls;
    char *bytes; /* of texts, or of the dictionary */
    size_t bytes_len, bytes_cap;
    int32_t *word_at; /* where each word of the dictionary begins, and the end of the last */
    size_t word_cap;
    int32_t words, word; /* how many; the one that was put last */
    int32_t *slots;      /* a table by hash: number of a word + 1 */
    size_t slot_count;
} tt_arrow_column;

enum {
    TT_ARROW_COLUMNS_MAX = 48,
    TT_ARROW_ROWS = 1 << 14, /* of a batch, about: what the second cache holds */
    TT_ARROW_MORE = 1 << 12, /* rows of a chunk that ends behind them, mostly */
};

typedef struct tt_arrow_batch {
    const tt_arrow_field *fields; /* of the table */
    size_t field_count;
    int8_t place[TT_ARROW_COLUMNS_MAX]; /* of each field: its column; -1: not asked for */
    tt_arrow_column columns[TT_ARROW_COLUMNS_MAX];
    size_t column_count;
    int64_t rows;
    size_t at;    /* the field that is put next */
    tt_status st; /* the first failure; nothing is put after it */
} tt_arrow_batch;

/* wanted: names of columns in the order in which they come; NULL: all. */
tt_status tt_arrow_batch_open(tt_arrow_batch *batch, const tt_arrow_field *fields, size_t field_count,
                              const char *const *wanted, size_t wanted_count, tt_error *err);
void tt_arrow_batch_free(tt_arrow_batch *batch);

/* ---- cell by cell: a call for each field of the table, in order, whether it was asked for or not ---- */

void tt_arrow_int(tt_arrow_batch *batch, int64_t x);
void tt_arrow_float(tt_arrow_batch *batch, double x); /* NaN and infinities are null */
void tt_arrow_time(tt_arrow_batch *batch, int64_t ns);
/* Bytes that are not UTF-8 become U+FFFD; NULL is null. */
void tt_arrow_text(tt_arrow_batch *batch, const char *text);
void tt_arrow_text_of(tt_arrow_batch *batch, const char *text, size_t len); /* the first so many bytes */
void tt_arrow_null(tt_arrow_batch *batch);
void tt_arrow_end_row(tt_arrow_batch *batch);

/* ---- in stretches ---- */

/* The column of a field; NULL: it was not asked for. */
static inline tt_arrow_column *tt_arrow_column_of(tt_arrow_batch *batch, size_t field)
{
    return batch->place[field] < 0 ? NULL : &batch->columns[batch->place[field]];
}
/* Room for n more rows in every column; the caller writes them, then adds n to batch->rows. */
tt_status tt_arrow_reserve(tt_arrow_batch *batch, size_t n);
/* Makes rows [from, to) of a column null; none behind them may be there yet. */
tt_status tt_arrow_make_null(tt_arrow_column *column, int64_t from, int64_t to);
/* The number of a word in the dictionary of a column. */
tt_status tt_arrow_word(tt_arrow_column *column, const char *text, size_t len, int32_t *out);
/* Keeps those of the last n rows (not yet counted in batch->rows) that are marked. */
void tt_arrow_keep(tt_arrow_batch *batch, size_t n, const unsigned char *is_kept, size_t kept);
/* Forgets rows that are not yet counted in batch->rows: they could not be read. */
void tt_arrow_drop(tt_arrow_batch *batch);

/* ---- handing over ---- */

/* Memory that no batch of a stream shares with another: engines know a dictionary again by its address, even after
 * they have released it. */
typedef struct tt_arrow_places tt_arrow_places;
tt_arrow_places *tt_arrow_places_create(void); /* NULL: out of memory */
void tt_arrow_places_drop(tt_arrow_places *places);

/* Moves the rows into *out, a struct array that owns them; the batch is empty then. */
tt_status tt_arrow_batch_export(tt_arrow_batch *batch, tt_arrow_places *places, struct ArrowArray *out);
tt_status tt_arrow_schema_export(const tt_arrow_batch *batch, struct ArrowSchema *out);

#endif
