/* functions.h -- what Python calls of spy.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_SPY_FUNCTIONS_H
#define TT_EXT_SPY_FUNCTIONS_H

#include "binding/state.h"

BINDING_FUNCTION(spy_save);
BINDING_FUNCTION(spy_dot);

int spy_init(PyObject *module, binding_state *state);

#endif
