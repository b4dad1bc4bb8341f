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

/* argv[1:4]: the module, our version, the Python that was tried. */
static const char boot[] = "import sys\n"
                           "sys.path[:1] = []\n" /* '' of -c: what lies in this folder is not ours */
                           "module, version, python = sys.argv[1:4]\n"
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
                           "sys.argv[1:4] = []\n"
                           "importlib.import_module('tensortap.commands.' + module).main(sys.argv[1:])\n";

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

tt_exit tt_python_exec(const char *module, const char *const *values, size_t count, char *const *words,
                       tt_error *err)
{
    char beside[4096];
    const char *given = getenv("TENSORTAP_PYTHON");
    const char *python = given != NULL && *given != '\0'      ? given
                         : find_beside(beside, sizeof beside) ? beside
                                                              : "python3";
    const char *head[] = { python, "-c", boot, module, TT_VERSION, python };
    size_t heads = sizeof head / sizeof *head, more = 0;
    while (words != NULL && words[more] != NULL)
        more++;
    const char **argv = calloc(heads + count + more + 1, sizeof *argv);
    if (argv == NULL)
        return tt_cmd_exit(TT_ENOMEM, err);
    memcpy(argv, head, sizeof head);
    for (size_t i = 0; i < count; i++)
        argv[heads + i] = values[i] != NULL ? values[i] : "";
    if (more > 0)
        memcpy(argv + heads + count, words, more * sizeof *argv);
    fflush(stdout);
    (void)execvp(python, (char *const *)(uintptr_t)argv);
    free(argv);
    return tt_cmd_fail(err, TT_EXIT_FAILED,
                       "cannot start %.120s: %s; set TENSORTAP_PYTHON to a Python with tensortap", python,
                       strerror(errno));
}
