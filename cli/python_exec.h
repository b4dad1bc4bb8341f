/* python_exec.h -- hands a command over to Python.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_PYTHON_EXEC_H
#define TT_CLI_PYTHON_EXEC_H

#include "cmd.h"

/* Becomes Python running tensortap.<module>.main(args): $TENSORTAP_PYTHON, else the
 * python3 beside this program, else that on PATH.  args ends with NULL.  Returns only
 * if none can be started.  A Python without this very tensortap says so and exits 3. */
tt_exit tt_python_exec(const char *module, char *const *args, tt_error *err);

#endif
