/* graph.c -- tensortap graph RUN | --trace-file T, --out G.png [options]
 *
 * Only the front: reads the options, so that help and mistakes need no Python; the
 * drawing is tensortap.commands.graph, which reads them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"
#include "words.h"

#include <stdlib.h>
#include <string.h>

static bool read_color(const char *text, void *out)
{
    tt_field field;
    (void)out;
    return strcmp(text, "size") == 0 || tt_field_find(text, &field);
}

static bool read_inches(const char *text, void *out)
{
    char *end = NULL;
    (void)out;
    return strtod(text, &end) > 0 && *end == '\0';
}

static void check(const tt_call *call)
{
    bool has_trace = tt_call_has(call, "trace-file");
    if ((call->count == 0) != has_trace)
        tt_cmd_refuse(call->cmd, "name a run, or a trace with --trace-file");
    if (!tt_call_has(call, "out"))
        tt_cmd_refuse(call->cmd, "say where to: --out FILE");
    if (!has_trace && tt_call_has(call, "save-json"))
        tt_cmd_refuse(call->cmd, "--save-json is for traces");
    if (has_trace && tt_call_has(call, "color"))
        tt_cmd_refuse(call->cmd, "--color needs a run: a trace has no statistics");
}

static const tt_option options[] = {
    { .name = "trace-file", "FILE", "A trace that CallTracer saved, .txt or .json" },
    { .name = "out", "FILE", "The picture: .svg, .png, .pdf, .html or .dot" },
    { "color", "WHAT", "Colour a run by nan, size, time or a statistic (absmax, std ...)",
      .read = read_color, .takes = "nan, size, time or a statistic" },
    { .name = "show-repetition", NULL, "Write how often a layer is repeated (the default)" },
    { .name = "no-show-repetition", NULL, "Do not write how often a layer is repeated" },
    { .name = "prune-leaves", NULL, "Leave out the last part of every path (the default for a trace)" },
    { .name = "no-prune-leaves", NULL, "Draw all parts (the default for a run)" },
    { .name = "squash-name", NULL, "Draw nodes of one name as one" },
    { "dpi", "N", "Dots per inch (150)", .read = tt_range_from_one, .takes = "a number from 1 on" },
    { "figwidth", "W", "Width in inches", .read = read_inches, .takes = "a number of inches" },
    { "figheight", "H", "Height in inches", .read = read_inches, .takes = "a number of inches" },
    { .name = "save-json", "FILE", "Write the whole tree of a trace as JSON" },
    { .name = "verbose", NULL, "Say what is read and written" },
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
    .run = tt_python_run,
};
