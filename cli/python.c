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

/* Becomes Python running a module of tensortap.commands; options: names and texts, so many of both. */
static tt_exit start(const char *module, const char *const *options, size_t option_count,
                     const char *const *words, size_t word_count, tt_error *err)
{
    char at_text[24], count[24];
    tt_buf pythons = { 0 };
    list_pythons(&pythons);
    const char *head[] = { NULL, "-c", boot, module, TT_VERSION, pythons.data, at_text, count };
    enum { HEADS = sizeof head / sizeof *head };
    const char **argv = calloc(HEADS + option_count + word_count + 1, sizeof *argv);
    if (argv == NULL || pythons.st != TT_OK)
        return tt_cmd_exit(TT_ENOMEM, err);
    memcpy(argv, head, sizeof head);
    (void)snprintf(count, sizeof count, "%zu", option_count);
    memcpy(argv + HEADS, options, option_count * sizeof *argv);
    memcpy(argv + HEADS + option_count, words, word_count * sizeof *argv);
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
    return tt_cmd_fail(err, TT_EXIT_FAILED,
                       "cannot start %s: %s; set TENSORTAP_PYTHON to a Python with tensortap", first,
                       strerror(why));
}

tt_exit tt_python_run(tt_call *call)
{
    const char *options[2 * (TT_OPTIONS_MAX + 2)];
    size_t count = 0;
    for (size_t i = 0; i < call->cmd->option_count; i++)
        if (call->given[i] != NULL) {
            options[count++] = call->cmd->options[i].name;
            options[count++] = call->given[i];
        }
    const char *notes[] = { call->is_json ? "json" : NULL, call->has_loss ? "has_loss" : NULL };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (notes[i] != NULL) {
            options[count++] = notes[i];
            options[count++] = "";
        }
    return start(call->cmd->name, options, count, (const char *const *)call->words, call->count,
                 call->err);
}

/* ---- runs in object stores ---------------------------------------------------- */

static const char mirrors_variable[] =
    "TENSORTAP_MIRRORS"; /* a line with a URL, a line with its mirror, ... */

bool tt_python_is_url(const char *word)
{
    size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");
    return len > 1 && strncmp(word + len, "://", 3) == 0;
}

const char *tt_python_mirror(const char *url)
{
    static char local[4096];
    const char *at = tt_python_is_url(url) ? getenv(mirrors_variable) : NULL;
    while (at != NULL && *at != '\0') {
        size_t len = strcspn(at, "\n");
        const char *place = at[len] != '\0' ? at + len + 1 : at + len;
        size_t place_len = strcspn(place, "\n");
        if (strlen(url) == len && strncmp(at, url, len) == 0 && place_len < sizeof local) {
            (void)snprintf(local, sizeof local, "%.*s", (int)place_len, place);
            return local;
        }
        at = place + place_len + (place[place_len] != '\0');
    }
    return NULL;
}

tt_exit tt_python_fetch(const char *command, int argc, char **argv, tt_error *err)
{
    char self[4096];
    if (!tt_program_path(self, sizeof self))
        return tt_cmd_fail(err, TT_EXIT_FAILED, "it is not known which file this program is");
    const char *options[] = { "program", self, "command", command };
    return start("mirrors", options, 4, (const char *const *)argv + 1, (size_t)argc - 1, err);
}
