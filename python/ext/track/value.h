/* value.h -- what the Python half of track asks about values.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_TRACK_VALUE_H
#define TT_EXT_TRACK_VALUE_H

#include "binding/state.h"

BINDING_FUNCTION(track_describe);
BINDING_FUNCTION(track_key);
BINDING_FUNCTION(track_frame_value);
BINDING_FUNCTION(track_record);
BINDING_FUNCTION(track_record_change);

#endif
