/* stats.h -- the object behind Stats.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_SUMMARY_STATS_H
#define TT_EXT_SUMMARY_STATS_H

#include "binding/state.h"

typedef struct summary_stats_object {
    PyObject_VAR_HEAD /* ob_size is the number of dimensions */
        tt_stats stats;
    int64_t shape[];
} summary_stats_object;

PyObject *summary_stats_make(binding_state *state, const tt_stats *s, const int64_t *shape,
                             Py_ssize_t ndim);
/* A Stats by torch, which computes what is in another device's memory. */
PyObject *summary_stats_on_device(PyObject *obj, bool propagates);

#endif
