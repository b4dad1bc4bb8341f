/* functions.h -- the summaries as Python calls them, and objects made by other folders.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_SUMMARY_FUNCTIONS_H
#define TT_EXT_SUMMARY_FUNCTIONS_H

#include "binding/state.h"

BINDING_FUNCTION(summary_stats);
BINDING_FUNCTION(summary_stats_from);
BINDING_FUNCTION(summary_stats_here);
BINDING_FUNCTION(summary_histogram);
BINDING_FUNCTION(summary_histogram_of);
BINDING_FUNCTION(summary_digest);
BINDING_FUNCTION(summary_digests);
BINDING_FUNCTION(summary_sketch);
BINDING_FUNCTION(summary_axes);
PyObject *summary_sketch_turn(PyObject *module, PyObject *blocks);
BINDING_FUNCTION(summary_compare);
BINDING_FUNCTION(summary_sample);
BINDING_FUNCTION(summary_attention);
BINDING_FUNCTION(summary_tensor_line);
BINDING_FUNCTION(summary_tree_text);
BINDING_FUNCTION(summary_table_text);
BINDING_FUNCTION(summary_tree_line);
BINDING_FUNCTION(summary_mood_codes);
BINDING_FUNCTION(summary_number_text);

PyObject *summary_escape(PyObject *module, PyObject *text);
PyTypeObject *summary_slice_type(void);
PyObject *summary_histogram_make(PyTypeObject *type); /* empty; or NULL with MemoryError */
tt_hist *summary_hist_of(PyObject *histogram);
PyObject *summary_digest_make(binding_state *state, tt_digest digest);
/* Takes over the sample, also when it fails. */
PyObject *summary_sample_make(binding_state *state, tt_sample *sample, tt_dtype dtype,
                              const int64_t *shape, int32_t ndim);

#endif
