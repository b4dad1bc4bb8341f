/* pipeline.h -- what torch.distributed.pipelining does around calls and gradients.
 *
 * torch has no public way to ask; its frames tell.  Where their names change, the calls of shape
 * inference are recorded as others are, and gradients that a schedule has scaled are called clipped.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_PIPELINE_H
#define TT_EXT_CALLS_PIPELINE_H

#include "base/frame.h"

/* Is a module about to be called only to learn the shapes of its outputs?  Its inputs are
 * uninitialised memory.  package: "torch.distributed.pipelining", which may not be imported. */
bool calls_pipeline_infers_shapes(PyObject *package);
/* Does a stage of a pipeline call this backward()? */
bool calls_pipeline_calls(base_frame *backward);
/* ... and does its schedule then divide the gradients, in place, by the number of micro-batches? */
bool calls_pipeline_scales(base_frame *backward, PyObject *self_key);

#endif
