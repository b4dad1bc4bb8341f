/* query.c -- tensortap query SQL RUN... | FOLDER
 *
 * Only the front: reads the options, so that help and mistakes need no Python; DuckDB answers, started by
 * tensortap.commands.query.
 * SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

static void check(const tt_call *call)
{
    if (!tt_call_has(call, "schema") && call->count < 2)
        tt_cmd_refuse(call->cmd, "%s",
                      call->count == 0 ? "say what to ask: a query in SQL, then runs"
                                       : "name runs, or folders with runs, behind the query");
    if (call->is_json && tt_call_has(call, "csv"))
        tt_cmd_refuse(call->cmd, "choose one of --json and --csv");
}

static const tt_option options[] = {
    { .name = "csv", NULL, "Print CSV" },
    { .name = "schema", NULL, "Print the tables and their columns" },
    { .name = "ranks", NULL, "A row for each rank (default: ranks are joined)" },
    { .name = "partial", NULL, "Of damaged runs, read the rest; exit with 1 if something is missing" },
};

const tt_cmd tt_cmd_query = {
    TT_CMD("query", "SQL RUN...", "ask many runs a question in SQL"),
    .usage = "SQL RUN...\n--schema",
    .doc = "Ask runs, folders of runs, or a folder of 'export --to parquet', with DuckDB.\v"
           "For example: tensortap query \"select run, max(step) from points group by run\" runs",
    TT_OPTIONS(options),
    .json = TT_JSON,
    .most = SIZE_MAX,
    .check = check,
    .run = tt_python_run,
};
