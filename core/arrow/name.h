/* name.h -- the name of a site in its parts: kind, module, number of the layer, tensor.
 *
 *     activation/layers.3.attn.0     activation  layers.3.attn  3     0
 *     gradient/h.3.mlp.weight        gradient    h.3.mlp        3     weight
 *     parameter/weight               parameter   (root)               weight
 *     line/src/train.py:34:y         line                             y
 *     train/accuracy                 train                            accuracy
 *     gradient_norm                                                   gradient_norm
 *
 * For arrow only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_ARROW_NAME_H
#define TT_ARROW_NAME_H

#include "tensortap_tools.h"

/* The modules of a run, so that an output can be told from a module. */
typedef struct tt_arrow_modules {
    tt_module *items; /* owned; by path; texts are the run's */
    size_t count, cap;
} tt_arrow_modules;

tt_status tt_arrow_modules_read(const tt_run *run, tt_arrow_modules *out);
void tt_arrow_modules_free(tt_arrow_modules *modules);
/* The class of a module; NULL: not recorded. */
const char *tt_arrow_modules_class(const tt_arrow_modules *modules, const char *path, size_t len);

/* A part of a name; NULL: it has none. */
typedef struct tt_arrow_part {
    const char *text; /* borrowed from the name */
    size_t len;
} tt_arrow_part;

typedef struct tt_arrow_name {
    tt_arrow_part kind, module, tensor;
    int64_t layer; /* the first number in the module's path; -1: none */
} tt_arrow_name;

tt_arrow_name tt_arrow_name_parse(const char *name, const tt_arrow_modules *modules);

#endif
