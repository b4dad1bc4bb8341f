/* observation.h -- one tensor of a module's call, as a consumer gets it.
 *
 * Either the live tensor, or the row that a probe inside a compiled graph wrote of it.  The questions are
 * the same for both; only runs/watch_record.c and monitor/row.c look at which it is, because the memory of a
 * live tensor can change.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_OBSERVATION_H
#define TT_EXT_CALLS_OBSERVATION_H

#include "binding/state.h"
#include "probe/log.h"
#include "tensor/look.h"

typedef struct calls_observation {
    binding_state *state;
    PyObject *tensor; /* borrowed; the live tensor; NULL: a row */
    tensor_looks
        *looks; /* of a live tensor: views and statistics, shared by the consumers of the event */
    const probe_row *row; /* borrowed; NULL: a live tensor */
    int64_t cost;         /* of a row: ns that it has taken so far; 0: it is not timed */
} calls_observation;

/* Element type and sizes; false: only a tensor's own attributes tell (tensor/facts.h). */
bool calls_observation_shape(const calls_observation *seen, tt_dtype *dtype, const int64_t **sizes,
                             int32_t *ndim);
/* The tensor itself, or one made of the copy that the probe took: a new reference.  NULL: with an
 * exception, or without one if nobody asked the probe for TT_PRODUCT_VALUE. */
PyObject *calls_observation_value(const calls_observation *seen);

#endif
