/* examples.c -- tensortap examples [FOLDER]
 *
 * Only the front: the programs are in the Python package; tensortap.commands.examples copies them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

const tt_cmd tt_cmd_examples = {
    TT_CMD("examples", "[FOLDER]", "write the programs that the documents use"),
    .doc = "Write the example programs that README and tutorials use into a folder (examples).  Files "
           "that are "
           "there already are not touched.\v"
           "For example: tensortap examples; tensortap run examples/diverging.py",
    .most = 1,
    .extra = "name one folder",
    .run = tt_python_run,
};
