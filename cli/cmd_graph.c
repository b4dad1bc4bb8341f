/* cmd_graph.c -- tensortap graph RUN | --trace-file T, --out G.png [options]
 *
 * Only the front: reads the options, so that help and mistakes need no Python; the
 * drawing is tensortap.commands.graph, which gets them as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"
#include "python_exec.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRACE = 256,
    OUT,
    REPEAT,
    NO_REPEAT,
    PRUNE,
    NO_PRUNE,
    SQUASH,
    DPI,
    WIDTH,
    HEIGHT,
    JSON,
    COLOR,
    VERBOSE
};

typedef struct arguments {
    const char *run, *trace, *out, *json, *color;
} arguments;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    arguments *args = state->input;
    char *end = NULL;
    tt_field field;
    switch (key) {
    case TRACE:
        args->trace = arg;
        return 0;
    case OUT:
        args->out = arg;
        return 0;
    case JSON:
        args->json = arg;
        return 0;
    case COLOR:
        if (strcmp(arg, "size") != 0 && !tt_field_find(arg, &field))
            argp_failure(state, TT_EXIT_USAGE, 0,
                         "--color takes nan, size, time or a statistic, not '%s'", arg);
        args->color = arg;
        return 0;
    case DPI:
        if (strtol(arg, &end, 10) < 1 || *end != '\0')
            argp_failure(state, TT_EXIT_USAGE, 0, "--dpi takes a number from 1 on, not '%s'", arg);
        return 0;
    case WIDTH:
    case HEIGHT:
        if (!(strtod(arg, &end) > 0) || *end != '\0')
            argp_failure(state, TT_EXIT_USAGE, 0, "a size is a number of inches, not '%s'", arg);
        return 0;
    case REPEAT:
    case NO_REPEAT:
    case PRUNE:
    case NO_PRUNE:
    case SQUASH:
    case VERBOSE:
        return 0;
    case ARGP_KEY_ARG:
        if (args->run != NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "one run at a time");
        args->run = arg;
        return 0;
    case ARGP_KEY_END:
        if ((args->run == NULL) == (args->trace == NULL))
            argp_failure(state, TT_EXIT_USAGE, 0, "name a run, or a trace with --trace-file");
        if (args->out == NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "say where to: --out FILE");
        if (args->run != NULL && args->json != NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "--save-json is for traces");
        if (args->run == NULL && args->color != NULL)
            argp_failure(state, TT_EXIT_USAGE, 0, "--color needs a run: a trace has no statistics");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    { "trace-file", TRACE, "FILE", 0, "A trace that CallTracer saved, .txt or .json", 0 },
    { "out", OUT, "FILE", 0, "The picture: .svg, .png, .pdf, .html or .dot", 0 },
    { "color", COLOR, "WHAT", 0, "Colour a run by nan, size, time or a statistic (absmax, std ...)", 0 },
    { "show-repetition", REPEAT, NULL, 0, "Write how often a layer is repeated (the default)", 0 },
    { "no-show-repetition", NO_REPEAT, NULL, 0, "Do not write how often a layer is repeated", 0 },
    { "prune-leaves", PRUNE, NULL, 0, "Leave out the last part of every path (the default for a trace)",
      0 },
    { "no-prune-leaves", NO_PRUNE, NULL, 0, "Draw all parts (the default for a run)", 0 },
    { "squash-name", SQUASH, NULL, 0, "Draw nodes of one name as one", 0 },
    { "dpi", DPI, "N", 0, "Dots per inch (150)", 0 },
    { "figwidth", WIDTH, "W", 0, "Width in inches", 0 },
    { "figheight", HEIGHT, "H", 0, "Height in inches", 0 },
    { "save-json", JSON, "FILE", 0, "Write the whole tree of a trace as JSON", 0 },
    { "verbose", VERBOSE, NULL, 0, "Say what is read and written", 0 },
    { 0 },
};

static const struct argp spec = {
    .options = options,
    .parser = parse,
    .args_doc = "RUN\n--trace-file FILE",
    .doc = "Draw which module calls which; repeated layers are folded.\v"
           "For example: tensortap graph runs/today --color nan --out graph.svg",
};

tt_exit tt_cmd_graph(int argc, char **argv, tt_error *err)
{
    arguments args = { 0 };
    argp_parse(&spec, argc, argv, 0, NULL, &args);
    return tt_python_exec("graph", argv + 1, err);
}
