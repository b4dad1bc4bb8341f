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

/* argv[1:6]: the module, our version, the Pythons to try, which of them this one is, the number of words
 * that are names and texts of options.  A Python without this tensortap hands over to the next. */
static const char boot[] =
    "import os, sys\n"
    "sys.path[:1] = []\n" /* '' of -c: what lies in this folder is not ours */
    "module, version, pythons, at, count = sys.argv[1:6]\n"
    "names, at = pythons.split('\\n')[:-1], int(at)\n"
    "try:\n"
    "    import tensortap\n"
    "    found = tensortap.__version__\n"
    "except ImportError as error:\n"
    "    found = str(error)\n"
    "while found != version:\n"
    "    at += 1\n"
    "    if at == len(names):\n"
    "        lack = 'does' if at == 1 else 'do'\n"
    "        print(f'tensortap: {\", \".join(names)} {lack} not have tensortap {version} ({found}); '\n"
    "              'install it there, or set TENSORTAP_PYTHON to a Python that has it', "
    "file=sys.stderr)\n"
    "        sys.exit(3)\n"
    "    try:\n"
    "        os.execvp(names[at], [names[at], *sys.orig_argv[1:6], str(at), *sys.argv[5:]])\n"
    "    except OSError as error:\n"
    "        found = error.strerror\n"
    "if at > 0 and {'VIRTUAL_ENV', 'CONDA_PREFIX'} & {*os.environ}:\n"
    "    print(f'tensortap: {names[0]} does not have tensortap {version}; using {names[at]}', "
    "file=sys.stderr)\n"
    "import importlib\n"
    "given, words = sys.argv[6:6 + int(count)], sys.argv[6 + int(count):]\n"
    "options = dict(zip(given[::2], given[1::2]))\n"
    "importlib.import_module('tensortap.commands.' + module).main(options, words)\n";

/* Adds a Python to the list, if it can run. */
static void add_python(tt_buf *list, const char *folder, const char *name)
{
    char path[4096];
    if (folder != NULL && *folder != '\0' &&
        snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && access(path, X_OK) == 0)
        (void)tt_buf_printf(list, "%s\n", path);
}

/* Lists the Pythons to try, best first, each on a line: the one that the user chose; else that of the
 * active environment.  The one beside this program is the last, because pipx and uv put the program into
 * an environment of its own, without the user's torch; but the first if the user named this very file. */
static void list_pythons(tt_buf *list)
{
    const char *chosen = getenv("TENSORTAP_PYTHON");
    if (chosen != NULL && *chosen != '\0') {
        (void)tt_buf_printf(list, "%s\n", chosen);
        return;
    }
    char beside[4096];
    char *slash = tt_program_path(beside, sizeof beside) ? strrchr(beside, '/') : NULL;
    *(slash != NULL ? slash : beside) = '\0';
    bool is_by_path = strchr(tt_cmd_called_as(), '/') != NULL;
    if (is_by_path)
        add_python(list, beside, "python3");
    add_python(list, getenv("VIRTUAL_ENV"), "bin/python3");
    add_python(list, getenv("CONDA_PREFIX"), "bin/python3");
    (void)tt_buf_text(list, "python3\n"); /* of the path */
    if (!is_by_path)
        add_python(list, beside, "python3");
}

tt_exit tt_python_run(tt_call *call)
{
    char at_text[24], count[24];
    tt_buf pythons = { 0 };
    list_pythons(&pythons);
    const char *head[] = { NULL, "-c", boot, call->cmd->name, TT_VERSION, pythons.data, at_text, count };
    enum { HEADS = sizeof head / sizeof *head };
    const char **argv = calloc(HEADS + 2 * TT_OPTIONS_MAX + call->count + 1, sizeof *argv);
    if (argv == NULL || pythons.st != TT_OK)
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
    int why = 0;
    char first[128] = "", name[4096];
    const char *line = pythons.data;
    for (int i = 0; *line != '\0'; i++) {
        size_t len = strcspn(line, "\n");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, line);
        (void)snprintf(at_text, sizeof at_text, "%d", i);
        argv[0] = name;
        (void)execvp(name, (char *const *)(uintptr_t)argv);
        if (i == 0) {
            why = errno;
            (void)snprintf(first, sizeof first, "%.120s", name);
        }
        line += len + 1;
    }
    free(argv);
    tt_buf_free(&pythons);
    return tt_cmd_fail(call->err, TT_EXIT_FAILED,
                       "cannot start %s: %s; set TENSORTAP_PYTHON to a Python with tensortap", first,
                       strerror(why));
}
