/* cmd_run.c -- tensortap run [-o RUN] [options] script.py args... | -m module args...
 *
 * Only the front: what comes after the script is the script's own, so parsing stops
 * there; the rest is tensortap.commands.run.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "python_exec.h"
#include "range.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

/* What tensortap.commands.run is given, in this order; "" where the user said nothing. */
typedef enum slot {
    OUT,
    EVERY,
    ONLY,
    EXCLUDE,
    KEEP,
    BUDGET,
    RESUME,
    INPUTS,
    GRADS,
    ON_NONFINITE,
    KIND, /* "script" or "module" */
    SLOT_COUNT_
} slot;

enum { LONG = 256 }; /* keys of options without a letter: LONG + slot */

typedef struct arguments {
    char *slots[SLOT_COUNT_]; /* borrowed of argv */
    char *module;
    char **rest; /* borrowed of argv; NULL-ended */
} arguments;

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(word, *words) != 0)
        words++;
    return *words != NULL;
}

static bool is_share(const char *text)
{
    char *end;
    double share = strtod(text, &end);
    return end != text && *end == '\0' && share > 0 && share < 1;
}

/* Ends the program if the option does not take this. */
static void check(slot which, const char *arg, struct argp_state *state)
{
    static const char *const grads[] = { "parameters", "activations", "all", "none", NULL };
    static const char *const actions[] = { "warn", "raise", NULL };
    int64_t every;
    uint32_t products;
    tt_error err;
    if (which == EVERY && (!tt_range_count(arg, &every) || every < 1))
        argp_failure(state, TT_EXIT_USAGE, 0, "--every takes a number of steps from 1 on, not '%s'", arg);
    if (which == KEEP && tt_products_parse(arg, &products, &err) < 0)
        argp_failure(state, TT_EXIT_USAGE, 0, "--%s", err.text);
    if (which == BUDGET && !is_share(arg))
        argp_failure(state, TT_EXIT_USAGE, 0,
                     "--budget takes a share of the time between 0 and 1 (0.02 is 2 %%), not '%s'", arg);
    if (which == GRADS && !is_one_of(arg, grads))
        argp_failure(state, TT_EXIT_USAGE, 0,
                     "--grads takes parameters, activations, all or none, not '%s'", arg);
    if (which == ON_NONFINITE && !is_one_of(arg, actions))
        argp_failure(state, TT_EXIT_USAGE, 0, "--on-nonfinite takes warn or raise, not '%s'", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    static char yes[] = "1";
    arguments *args = state->input;
    switch (key) {
    case 'o':
        args->slots[OUT] = arg;
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
        if (args->slots[RESUME] != NULL && args->slots[OUT] == NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "--resume needs the run to go on with: -o RUN");
        return 0;
    default:
        if (key < LONG || key >= LONG + KIND)
            return ARGP_ERR_UNKNOWN;
        if (arg != NULL)
            check((slot)(key - LONG), arg, state);
        args->slots[key - LONG] = arg != NULL ? arg : yes;
        return 0;
    }
}

static const struct argp_option options[] = {
    { "output", 'o', "RUN", 0, "The run's folder (runs/DATE-TIME)", 0 },
    { "resume", LONG + RESUME, NULL, 0, "Go on with the run in -o, at the step after its last", 0 },
    { "every", LONG + EVERY, "N", 0, "Record every Nth step (1)", 0 },
    { "only", LONG + ONLY, "GLOB", 0, "Record sites that match (*)", 0 },
    { "exclude", LONG + EXCLUDE, "GLOB", 0, "Leave out sites that match", 0 },
    { "keep", LONG + KEEP, "WHAT", 0,
      "What to keep: stats, hist, digest, sample, value; several: stats,value (stats)", 0 },
    { "budget", LONG + BUDGET, "SHARE", 0,
      "Largest share of the time that watching may take, such as 0.02; expensive sites are then recorded "
      "less often",
      0 },
    { "inputs", LONG + INPUTS, NULL, 0, "Record what modules are given, too", 0 },
    { "grads", LONG + GRADS, "WHICH", 0, "Gradients of parameters, activations, all or none (parameters)",
      0 },
    { "on-nonfinite", LONG + ON_NONFINITE, "ACTION", 0,
      "At the first NaN or Inf: warn, or raise an exception in the program", 0 },
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
        "The run keeps the command line.  Values of options such as --api-key, --token or --password are "
        "replaced by ***; with TENSORTAP_PRIVATE=1 nothing of it is kept.\n\n"
        "For example: tensortap run -o runs/today train.py --lr 0.1",
};

tt_exit tt_cmd_run(int argc, char **argv, tt_error *err)
{
    arguments args = { 0 };
    argp_parse(&spec, argc, argv, ARGP_IN_ORDER, NULL, &args);
    size_t count = 0;
    while (args.rest[count] != NULL)
        count++;
    char **rest = calloc(SLOT_COUNT_ + count + 2, sizeof *rest);
    if (rest == NULL)
        return TT_EXIT_FAILED;
    static char nothing[] = "", script[] = "script", module[] = "module";
    args.slots[KIND] = args.module != NULL ? module : script;
    size_t at = 0;
    for (int i = 0; i < SLOT_COUNT_; i++)
        rest[at++] = args.slots[i] != NULL ? args.slots[i] : nothing;
    if (args.module != NULL)
        rest[at++] = args.module;
    memcpy(rest + at, args.rest, count * sizeof *rest);
    tt_exit code = tt_python_exec("run", rest, err);
    free(rest);
    return code;
}
