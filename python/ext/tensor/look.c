/* look.c -- one look at each tensor of an event, shared by all who consume the event.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/look.h"

tensor_look *tensor_look_at(tensor_looks *looks, PyObject *tensor)
{
    for (tensor_look *known = looks->all; known != NULL; known = known->next)
        if (known->tensor == tensor)
            return known;
    tensor_look *look = looks->torch->spare_looks;
    if (look != NULL)
        looks->torch->spare_looks = look->next;
    else if ((look = PyMem_Malloc(sizeof *look)) == NULL)
        return NULL;
    look->tensor = Py_NewRef(tensor);
    look->has_stats = false;
    look->why = tensor_view_open(looks->torch, tensor, &look->view);
    look->next = looks->all;
    looks->all = look;
    return look;
}

const tt_stats *tensor_look_stats(tensor_look *look)
{
    if (!look->has_stats)
        tt_stats_compute(&look->view.tensor, &look->stats);
    look->has_stats = true;
    return &look->stats;
}

void tensor_looks_clear(tensor_looks *looks)
{
    while (looks->all != NULL) {
        tensor_look *look = looks->all;
        looks->all = look->next;
        if (look->why == VIEW_OK)
            tensor_view_close(&look->view);
        Py_DECREF(look->tensor); /* may run any code, which may look at other tensors */
        look->next = looks->torch->spare_looks;
        looks->torch->spare_looks = look;
    }
}
