/* log.h -- what probes inside compiled graphs have seen, until somebody reads it.
 *
 * A probe runs in the middle of compiled code, in any thread and without the GIL, so it
 * appends a row here and returns.  Consumers take the rows later, with the GIL.  Rows
 * of one thread stay in the order in which they were appended.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_PROBE_LOG_H
#define TT_EXT_PROBE_LOG_H

#include "tensor/products.h"

typedef struct probe_row {
    uint64_t module; /* number of the module, from its slots */
    uint64_t
        call; /* number of this call of the operator; of a gradient: of the call that saw its tensor */
    int64_t time; /* ns since 1970 */
    int64_t cost; /* ns that the probe took; 0: not timed */
    int32_t slot;
    uint32_t thread;  /* from 1, in order of appearance */
    uint32_t wanted;  /* of TT_PRODUCT_ and PROBE_SEEN: what the probe was asked for */
    uint64_t pending; /* number of the statistics that a device computes; 0: they are here */
    tensor_products products;
    void *value; /* owned, from malloc; contiguous; NULL: not wanted */
    tt_dtype dtype;
    int32_t ndim;
    int64_t shape[TT_MAX_DIM]; /* only the first ndim are set */
} probe_row;

/* Rows that were taken out of the log. */
typedef struct probe_rows {
    probe_row *all; /* owned */
    size_t count, cap;
} probe_rows;

/* Appends a row and takes what it owns; drops it if there is no memory. */
void probe_log_append(probe_row *row);
/* Moves the rows of one thread (0: of all) into *out, which is { 0 } or was freed. */
void probe_log_take(uint32_t thread, probe_rows *out);
size_t probe_log_count(void);    /* at a glance; no lock */
uint32_t probe_log_thread(void); /* the number of this thread */
void probe_rows_free(probe_rows *rows);

#endif
