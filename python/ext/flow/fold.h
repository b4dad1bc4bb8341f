/* fold.h -- the blocks of a chart that are drawn once.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_FLOW_FOLD_H
#define TT_EXT_FLOW_FOLD_H

#include "binding/state.h"

BINDING_FUNCTION(flow_fold);

#endif
