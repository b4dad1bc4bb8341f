/* parameters.h -- the parameters of a model, in a list that is prepared once.
 *
 * Exists because a loop in Python would cost more than the statistics of a small layer.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_CALLS_PARAMETERS_H
#define TT_EXT_CALLS_PARAMETERS_H

#include "binding/state.h"
#include "tensor/view.h"

/* First member of what a consumer knows of one parameter. */
typedef struct calls_parameter {
    PyObject *tensor; /* owned; NULL: it is looked up each time, because programs replace parameters */
    PyObject *module; /* owned or NULL; weak reference */
    PyObject *key;    /* owned or NULL; in module._parameters */
    PyObject *name;   /* owned or NULL; as users know it */
    bool is_buffer;   /* the key is one of module._buffers */
} calls_parameter;

/* { 0 } at first. */
typedef struct calls_parameters {
    char *all;   /* owned */
    size_t size; /* of one */
    Py_ssize_t count;
} calls_parameters;

/* Reads one item of a list, an entry of which all is 0; 0, or -1 with an exception. */
typedef int calls_parameter_read(void *context, void *parameter, PyObject *item);
/* Called with each parameter, a tensor or NULL: it is gone.  What is not 0 ends the loop. */
typedef int calls_parameter_visit(void *context, void *parameter, Py_ssize_t index, PyObject *tensor);

/* Makes the list anew, of entries of `size` bytes.  0, or -1 with an exception. */
int calls_parameters_set(calls_parameters *self, PyObject *list, size_t size, calls_parameter_read *read,
                         void *context);
void calls_parameters_free(calls_parameters *self);
void *calls_parameters_at(const calls_parameters *self, Py_ssize_t index);
/* The parameter as it is now: a new reference, or NULL without an exception. */
PyObject *calls_parameter_get(binding_state *state, const calls_parameter *parameter);
/* Visits `count` of them, by their indices; NULL: the first ones.  0, or what visit returned. */
int calls_parameters_each(binding_state *state, const calls_parameters *self, const int32_t *indices,
                          Py_ssize_t count, calls_parameter_visit *visit, void *context);

#endif
