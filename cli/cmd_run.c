/* cmd_run.c -- tensortap run [-o RUN] [options] script.py args... | -m module args...
 *
 * Only the front: what comes after the script is the script's own, so parsing stops
 * there; the rest is tensortap._run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "python_exec.h"
#include "range.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY = 256, ONLY, KEEP };

typedef struct arguments {
    char *out, *every, *only, *keep, *module;
    char **rest; /* borrowed of argv; NULL-ended */
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    int64_t every;
    uint32_t products;
    tt_error err;
    switch (key) {
    case 'o':
        args->out = arg;
        return 0;
    case EVERY:
        if (!tt_range_count(arg, &every) || every < 1)
            argp_failure(state, TT_EXIT_USAGE, 0, "--every takes a number of steps from 1 on, not '%s'",
                         arg);
        args->every = arg;
        return 0;
    case ONLY:
        args->only = arg;
        return 0;
    case KEEP:
        if (tt_products_parse(arg, &products, &err) < 0)
            argp_failure(state, TT_EXIT_USAGE, 0, "--%s", err.text);
        args->keep = arg;
        return 0;
    case 'm':
        args->module = arg;
        args->rest = state->argv + state->next; /* the rest is the module's */
        state->next = state->argc;
        return 0;
    case ARGP_KEY_ARG:
        args->rest = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (args->rest == NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "name a script, as in: tensortap run train.py");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "output", 'o', "RUN", 0, "The run's folder (runs/DATE-TIME)", 0 },
    { "every", EVERY, "N", 0, "Record every Nth step (1)", 0 },
    { "only", ONLY, "GLOB", 0, "Record sites that match (*)", 0 },
    { "keep", KEEP, "WHAT", 0,
      "What to keep: stats, hist, digest, sample, value; several: stats,value (stats)", 0 },
    { NULL, 'm', "MODULE", 0, "Run a module, as python -m does", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "SCRIPT [ARGUMENT...]\n-m MODULE [ARGUMENT...]",
    .doc =
        "Run a Python program and record every model whose optimizer steps.  The program needs no change "
        "and behaves as under Python.\v"
        "For example: tensortap run -o runs/today train.py --lr 0.1",
};

tt_exit tt_cmd_run(int argc, char **argv, tt_error *err)
{
    arguments args = { 0 };
    argp_parse(&spec, argc, argv, ARGP_IN_ORDER, NULL, &args);
    size_t count = 0;
    while (args.rest[count] != NULL)
        count++;
    char **rest = calloc(count + 8, sizeof *rest);
    if (rest == NULL)
        return TT_EXIT_FAILED;
    static char nothing[] = "", script[] = "script", module[] = "module";
    char *head[] = { args.out != NULL ? args.out : nothing,   args.every != NULL ? args.every : nothing,
                     args.only != NULL ? args.only : nothing, args.keep != NULL ? args.keep : nothing,
                     args.module != NULL ? module : script,   args.module };
    size_t at = args.module != NULL ? 6 : 5;
    memcpy(rest, head, at * sizeof *rest);
    memcpy(rest + at, args.rest, count * sizeof *rest);
    tt_exit code = tt_python_exec("_run", rest, err);
    free(rest);
    return code;
}
