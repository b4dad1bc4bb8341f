/* error.h -- an exception in our code, which must not reach the user's.
 *
 * Exists because one kind of it is not ours: a Ctrl-C that came while we were at
 * work.  It comes up again at the program's next instruction.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_EXT_BASE_ERROR_H
#define TT_EXT_BASE_ERROR_H

#include "base/compat.h"

/* The pending exception, to be counted; NULL: there is none, or it is the program's. */
static inline PyObject *base_error_take(void)
{
    PyObject *error = PyErr_GetRaisedException(); /* owned */
    if (error != NULL && PyErr_GivenExceptionMatches(error, PyExc_KeyboardInterrupt)) {
        Py_CLEAR(error);
        PyErr_SetInterrupt();
    }
    return error;
}

#endif
