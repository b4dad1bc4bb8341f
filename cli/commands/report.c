/* report.c -- tensortap report RUN...
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/overview.h"
#include "words.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

extern char **environ;

static struct {
    const char *out;
    int64_t rank; /* main.c opens it */
    bool opens;
} args;

/* "runs/today/" makes "today.html". */
static char *default_path(const char *run)
{
    size_t end = strlen(run);
    while (end > 1 && run[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && run[start - 1] != '/')
        start--;
    const char *name = run + start;
    bool is_folder = strncmp(name, ".", end - start) == 0 || strncmp(name, "..", end - start) == 0;
    char *path = NULL;
    int n = is_folder || end == start ? asprintf(&path, "report.html")
                                      : asprintf(&path, "%.*s.html", (int)(end - start), name);
    return n > 0 ? path : NULL;
}

static tt_status save(const char *path, const tt_buf *page, tt_error *err)
{
    tt_output *output;
    tt_status st = tt_output_open(path, &output, err);
    if (st < 0)
        return st;
    st = tt_output_write(output, &(struct iovec){ page->data, page->len }, 1, err);
    return tt_output_close(output, st, err);
}

/* Starts the browser and does not wait for it. */
static tt_exit open_page(const char *path, tt_error *err)
{
    char *full = realpath(path, NULL), program[] = "xdg-open"; /* owned */
    pid_t pid;
    int failed = full == NULL ? errno
                              : posix_spawnp(&pid, program, NULL, NULL, (char *[]){ program, full, NULL },
                                             environ);
    free(full);
    return failed == 0 ? TT_EXIT_FINE
                       : tt_cmd_fail(err, TT_EXIT_FAILED,
                                     "xdg-open could not be started: %s; open %.120s in a browser",
                                     strerror(failed), path);
}

static tt_exit report(tt_call *call)
{
    tt_page_run runs[TT_PAGE_RUNS_MOST];
    for (size_t i = 0; i < call->count; i++)
        runs[i] =
            (tt_page_run){ call->runs[i], call->words[i], tt_state_text(tt_run_state(call->runs[i])) };
    char *chosen = args.out == NULL ? default_path(call->path) : NULL; /* owned */
    const char *path = args.out != NULL ? args.out : chosen;
    tt_buf page = { 0 };
    tt_status st = path != NULL
                       ? tt_page_write(runs, call->count, tt_overview_is_private(), &page, call->err)
                       : TT_ENOMEM;
    if (st == TT_OK)
        st = save(path, &page, call->err);
    tt_exit code = tt_cmd_exit(st, call->err);
    if (code == TT_EXIT_FINE)
        tt_screen_say(TT_MOOD_PLAIN, "%s  %s\n", path, tt_screen_bytes((int64_t)page.len));
    if (code == TT_EXIT_FINE && args.opens)
        code = open_page(path, call->err);
    tt_buf_free(&page);
    free(chosen);
    return code;
}

static const tt_option options[] = {
    { "output", "FILE", "The page (default: the run's name with .html, in this folder)", .to = &args.out,
      .letter = 'o' },
    { "open", NULL, "Open it in the browser", .to = &args.opens },
    TT_RANK_OPTION(&args.rank),
};

const tt_cmd tt_cmd_report = {
    TT_CMD("report", "RUN...", "a page to look at and to send"),
    .doc = "Write one HTML file about a run: what is wrong first, then curves, a map of all layers and "
           "steps, and every site.  With two runs it shows where they diverge, with three "
           "to twenty their curves over each other.  The file needs no network and no other file.\v"
           "For example: tensortap report runs/today --open\n"
           "             tensortap report runs/* -o compared.html",
    TT_OPTIONS(options),
    .least = 1,
    .most = TT_PAGE_RUNS_MOST,
    .runs = TT_PAGE_RUNS_MOST,
    .missing = "name a run; 'tensortap ls' lists them",
    .extra = "a page shows up to 20 runs",
    .run = report,
};
