/* python.c -- hands a command over to Python.
 *
 * Exists because some things need torch, h5py or pyarrow; exec rather than fork, so
 * that signals, the terminal and the exit code are Python's own.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* argv[1:5]: the module, our version, the Python that was tried, the number of words that are names and
 * texts of options. */
static const char boot[] =
    "import sys\n"
    "sys.path[:1] = []\n" /* '' of -c: what lies in this folder is not ours */
    "module, version, python, count = sys.argv[1:5]\n"
    "try:\n"
    "    import tensortap\n"
    "    found = tensortap.__version__\n"
    "except ImportError as error:\n"
    "    found = str(error)\n"
    "if found != version:\n"
    "    print(f'tensortap: {python} does not have tensortap {version} ({found}); "
    "set TENSORTAP_PYTHON to one that has', file=sys.stderr)\n"
    "    sys.exit(3)\n"
    "import importlib\n"
    "given, words = sys.argv[5:5 + int(count)], sys.argv[5 + int(count):]\n"
    "options = dict(zip(given[::2], given[1::2]))\n"
    "importlib.import_module('tensortap.commands.' + module).main(options, words)\n";

/* The python3 beside this program; false: there is none. */
static bool find_beside(char *out, size_t room)
{
    if (!tt_program_path(out, room - sizeof "python3"))
        return false;
    char *slash = strrchr(out, '/');
    if (slash == NULL)
        return false;
    memcpy(slash + 1, "python3", sizeof "python3");
    return access(out, X_OK) == 0;
}

tt_exit tt_python_run(tt_call *call)
{
    char beside[4096], count[24];
    const char *chosen = getenv("TENSORTAP_PYTHON");
    const char *python = chosen != NULL && *chosen != '\0'    ? chosen
                         : find_beside(beside, sizeof beside) ? beside
                                                              : "python3";
    const char *head[] = { python, "-c", boot, call->cmd->name, TT_VERSION, python, count };
    enum { HEADS = sizeof head / sizeof *head };
    const char **argv = calloc(HEADS + 2 * TT_OPTIONS_MAX + call->count + 1, sizeof *argv);
    if (argv == NULL)
        return tt_cmd_exit(TT_ENOMEM, call->err);
    memcpy(argv, head, sizeof head);
    size_t at = HEADS;
    for (size_t i = 0; i < call->cmd->option_count; i++)
        if (call->given[i] != NULL) {
            argv[at++] = call->cmd->options[i].name;
            argv[at++] = call->given[i];
        }
    const char *notes[] = { call->is_json ? "json" : NULL, call->has_loss ? "has_loss" : NULL };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i] != NULL) {
            argv[at++] = notes[i];
            argv[at++] = "";
        }
    (void)snprintf(count, sizeof count, "%zu", at - HEADS);
    memcpy(argv + at, call->words, call->count * sizeof *argv);
    fflush(stdout);
    (void)execvp(python, (char *const *)(uintptr_t)argv);
    free(argv);
    return tt_cmd_fail(call->err, TT_EXIT_FAILED,
                       "cannot start %.120s: %s; set TENSORTAP_PYTHON to a Python with tensortap", python,
                       strerror(errno));
}
