/* facts.h -- element type, shape, device and statistics of any tensor, without its elements.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_SUMMARY_FACTS_H
#define TT_EXT_SUMMARY_FACTS_H

#include "binding/state.h"

typedef struct summary_facts {
    char dtype[32], device[24]; /* empty: not known; the CPU */
    int32_t ndim;               /* -1: not known */
    int64_t shape[TT_MAX_DIM];
    bool has_stats;
    tt_stats stats;
} summary_facts;

/* VIEW_OK: they come from the elements, and *view is open.  Otherwise they are what the tensor says
 * of itself, and what torch computes on its device.  Leaves no exception. */
tensor_view_result summary_facts_read(binding_state *state, PyObject *obj, summary_facts *out,
                                      tensor_view *view);

#endif
