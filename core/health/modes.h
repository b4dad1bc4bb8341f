/* modes.h -- which modules of a model differ between training and evaluation.  For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_MODES_H
#define TT_HEALTH_MODES_H

#include "health/rule.h"

/* "it has dropout"; NULL: the mode makes no difference to the model at this path. */
const char *tt_modes_that_matter(tt_case *c, const char *path);
/* Says which parts of the model were in training, or in evaluation, while the model was not. */
void tt_modes_find_parts(tt_case *c, bool in_training);

#endif
