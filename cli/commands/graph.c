/* graph.c -- tensortap graph RUN | --trace-file T, --out G.png [options]
 *
 * Only the front: reads the options, so that help and mistakes need no Python; the
 * drawing is tensortap.commands.graph, which gets them as they are.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *trace, *out, *json, *color, *unused;
    bool is_set; /* options that only Python reads */
} args;

static bool read_color(const char *text, void *out)
{
    tt_field field;
    *(const char **)out = text;
    return strcmp(text, "size") == 0 || tt_field_find(text, &field);
}

static bool read_dpi(const char *text, void *out)
{
    char *end = NULL;
    (void)out;
    return strtol(text, &end, 10) >= 1 && *end == '\0';
}

static bool read_inches(const char *text, void *out)
{
    char *end = NULL;
    (void)out;
    return strtod(text, &end) > 0 && *end == '\0';
}

static void check(const tt_call *call)
{
    if ((call->count == 0) == (args.trace == NULL))
        tt_cmd_refuse(call->cmd, "name a run, or a trace with --trace-file");
    if (args.out == NULL)
        tt_cmd_refuse(call->cmd, "say where to: --out FILE");
    if (call->count > 0 && args.json != NULL)
        tt_cmd_refuse(call->cmd, "--save-json is for traces");
    if (call->count == 0 && args.color != NULL)
        tt_cmd_refuse(call->cmd, "--color needs a run: a trace has no statistics");
}

static tt_exit graph(tt_call *call)
{
    return tt_python_exec("graph", NULL, 0, call->options, call->err);
}

static const tt_option options[] = {
    { "trace-file", "FILE", "A trace that CallTracer saved, .txt or .json", .to = &args.trace },
    { "out", "FILE", "The picture: .svg, .png, .pdf, .html or .dot", .to = &args.out },
    { "color", "WHAT", "Colour a run by nan, size, time or a statistic (absmax, std ...)",
      .to = &args.color, read_color, "nan, size, time or a statistic" },
    { "show-repetition", NULL, "Write how often a layer is repeated (the default)", .to = &args.is_set },
    { "no-show-repetition", NULL, "Do not write how often a layer is repeated", .to = &args.is_set },
    { "prune-leaves", NULL, "Leave out the last part of every path (the default for a trace)",
      .to = &args.is_set },
    { "no-prune-leaves", NULL, "Draw all parts (the default for a run)", .to = &args.is_set },
    { "squash-name", NULL, "Draw nodes of one name as one", .to = &args.is_set },
    { "dpi", "N", "Dots per inch (150)", .to = &args.unused, read_dpi, "a number from 1 on" },
    { "figwidth", "W", "Width in inches", .to = &args.unused, read_inches, "a number of inches" },
    { "figheight", "H", "Height in inches", .to = &args.unused, read_inches, "a number of inches" },
    { "save-json", "FILE", "Write the whole tree of a trace as JSON", .to = &args.json },
    { "verbose", NULL, "Say what is read and written", .to = &args.is_set },
};

const tt_cmd tt_cmd_graph = {
    TT_CMD("graph", "RUN", "draw which module calls which"),
    .usage = "RUN\n--trace-file FILE",
    .doc = "Draw which module calls which; repeated layers are folded.\v"
           "For example: tensortap graph runs/today --color nan --out graph.svg",
    TT_OPTIONS(options),
    .most = 1,
    .extra = "name one run",
    .check = check,
    .run = graph,
};
