/* server.c -- answers questions about the runs of a folder.
 *
 * Keeps the pages that were asked for last, so that an answer reads only what was written since.
 * A run may be removed, replaced, cut or damaged at any time: then its page is made anew, or the
 * answer says what is wrong.
 * SPDX-License-Identifier: Apache-2.0 */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGES = 4, LIST_SECONDS = 2, LIST_TIMES = 20, JUDGED_BYTES = 8 << 20 };

/* A page that was asked for. */
typedef struct entry {
    char *key;                       /* owned; names of its runs, each with a newline behind it */
    tt_run *runs[TT_PAGE_RUNS_MOST]; /* owned */
    tt_page_run about[TT_PAGE_RUNS_MOST];
    char *titles[TT_PAGE_RUNS_MOST];      /* owned */
    struct stat files[TT_PAGE_RUNS_MOST]; /* the first file of each run: another one is another run */
    tt_page *page;                        /* owned; NULL: nothing here */
    uint64_t used;                        /* when it was asked for last */
} entry;

struct tt_server {
    char *folder; /* owned */
    char *title;  /* owned; of the folder, for people */
    bool is_private;
    tt_runs runs;
    double next_list; /* when the folder is to be searched again */
    entry pages[PAGES];
    uint64_t questions;
};

static void close_entry(entry *e)
{
    tt_page_close(e->page);
    for (size_t i = 0; i < TT_PAGE_RUNS_MOST; i++) {
        tt_run_close(e->runs[i]);
        free(e->titles[i]);
    }
    free(e->key);
    *e = (entry){ 0 };
}

void tt_server_close(tt_server *server)
{
    if (server == NULL)
        return;
    for (size_t i = 0; i < PAGES; i++)
        close_entry(&server->pages[i]);
    tt_runs_free(&server->runs);
    free(server->folder);
    free(server->title);
    free(server);
}

/* Takes over the verdicts of runs that have not changed. */
static void keep_verdicts(tt_runs *before, tt_runs *now)
{
    for (size_t i = 0; i < now->count; i++)
        for (size_t k = 0; k < before->count; k++) {
            tt_runs_entry *to = &now->entries[i], *from = &before->entries[k];
            if (from->verdict == NULL || from->totals.points != to->totals.points ||
                from->started != to->started || from->state != to->state ||
                strcmp(from->path, to->path) != 0)
                continue;
            to->verdict = from->verdict;
            to->errors = from->errors;
            to->warnings = from->warnings;
            from->verdict = NULL;
        }
}

/* Searches the folder, if that was not done a moment ago.  A large one takes a while: the longer, the later it
 * is searched again. */
static tt_status list_runs(tt_server *server, tt_error *err)
{
    double start = tt_clock_seconds();
    if (start < server->next_list)
        return TT_OK;
    tt_runs before = server->runs;
    server->runs = (tt_runs){ 0 };
    tt_status st = tt_runs_find(server->folder, &(tt_runs_wish){ .wants_all = true }, &server->runs, err);
    if (st == TT_OK) {
        keep_verdicts(&before, &server->runs);
        st = tt_runs_judge(&server->runs, JUDGED_BYTES);
    }
    tt_runs_free(&before);
    double end = tt_clock_seconds();
    server->next_list = end + LIST_SECONDS + LIST_TIMES * (end - start);
    return st;
}

/* The name of a folder; of "." and "..", which name none, that of the folder they stand for. */
static char *title_of(const char *folder)
{
    char *full = strspn(folder, "./") == strlen(folder) ? realpath(folder, NULL) : NULL; /* owned */
    const char *slash = full != NULL ? strrchr(full, '/') : NULL;
    char *title = strdup(slash != NULL && slash[1] != '\0' ? slash + 1 : folder);
    free(full);
    return title;
}

tt_status tt_server_open(const char *folder, bool is_private, tt_server **out, tt_error *err)
{
    tt_server *server = calloc(1, sizeof *server);
    size_t len = strlen(folder);
    while (len > 1 && folder[len - 1] == '/')
        len--;
    tt_status st = TT_OK;
    if (server != NULL && (server->folder = strndup(folder, len)) != NULL)
        server->title = title_of(server->folder);
    if (server == NULL || server->title == NULL)
        st = tt_fail_plain(err, TT_ENOMEM);
    if (st == TT_OK) {
        server->is_private = is_private;
        st = list_runs(server, err);
    }
    if (st == TT_OK)
        *out = server;
    else
        tt_server_close(server);
    return st;
}

size_t tt_server_run_count(const tt_server *server)
{
    return server->runs.count;
}

/* Characters before the name of a run in its path. */
static size_t prefix_len(const tt_server *server)
{
    return strcmp(server->folder, ".") == 0   ? 0
           : strcmp(server->folder, "/") == 0 ? 1
                                              : strlen(server->folder) + 1;
}

/* The folder itself is a run. */
static bool is_single(const tt_server *server)
{
    return server->runs.count == 1 && strcmp(server->runs.entries[0].path, server->folder) == 0;
}

/* Returns the path of a run by its name; NULL: there is none. */
static const char *find_run(const tt_server *server, const char *name)
{
    if (is_single(server))
        return *name == '\0' ? server->folder : NULL;
    for (size_t i = 0; *name != '\0' && i < server->runs.count; i++) {
        const char *path = server->runs.entries[i].path;
        if (strlen(path) > prefix_len(server) && strcmp(path + prefix_len(server), name) == 0)
            return path;
    }
    return NULL;
}

/* ---- pages ---------------------------------------------------------------------- */

/* How many runs are asked for; the first may have no name. */
static size_t count_of(const tt_question *q)
{
    size_t count = 1;
    while (count < TT_PAGE_RUNS_MOST && *q->runs[count] != '\0')
        count++;
    return count;
}

/* A text that only the same runs in the same order have; NULL: out of memory. */
static char *key_of(const tt_question *q)
{
    tt_buf text = { 0 };
    for (size_t i = 0, count = count_of(q); i < count; i++)
        (void)tt_buf_printf(&text, "%s\n", q->runs[i]);
    if (text.st < 0)
        tt_buf_free(&text);
    return text.data;
}

/* Takes the key. */
static tt_status fill_entry(tt_server *server, entry *e, const tt_question *q, char *key, tt_error *err)
{
    size_t count = count_of(q);
    tt_status st = TT_OK;
    e->key = key;
    for (size_t i = 0; st == TT_OK && i < count; i++) {
        const char *path = find_run(server, q->runs[i]);
        if (path == NULL || access(path, F_OK) < 0) {
            server->next_list = 0;
            (void)list_runs(server, err);
            path = find_run(server, q->runs[i]);
        }
        if (path == NULL)
            return tt_fail(err, TT_EINVAL, "There is no run '%.150s' in this folder.", q->runs[i]);
        e->titles[i] = strdup(*q->runs[i] != '\0' ? q->runs[i] : server->title);
        st = e->titles[i] != NULL ? tt_run_open(path, &e->runs[i], err) : TT_ENOMEM;
        if (st == TT_OK)
            e->about[i] = (tt_page_run){ .run = e->runs[i], .path = e->titles[i] };
        if (st == TT_OK && stat(tt_overview_file(e->runs[i], 0).path, &e->files[i]) < 0)
            e->files[i] = (struct stat){ 0 };
    }
    return st == TT_OK ? tt_page_open(e->about, count, server->is_private, &e->page, err) : st;
}

/* Is the first file of each run still that which was opened? */
static bool has_same_runs(const entry *e)
{
    struct stat about;
    for (size_t i = 0; i < TT_PAGE_RUNS_MOST && e->runs[i] != NULL; i++)
        if (stat(tt_overview_file(e->runs[i], 0).path, &about) < 0 ||
            about.st_ino != e->files[i].st_ino || about.st_dev != e->files[i].st_dev)
            return false;
    return true;
}

/* Finds the page or makes it, in the place of the one that was not asked for longest. */
static tt_status find_page(tt_server *server, const tt_question *q, entry **out, tt_error *err)
{
    entry *oldest = &server->pages[0], *found = NULL;
    char *key = key_of(q); /* owned */
    if (key == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    for (size_t i = 0; i < PAGES; i++) {
        entry *e = &server->pages[i];
        if (e->page != NULL && strcmp(e->key, key) == 0)
            found = e;
        oldest = e->used < oldest->used ? e : oldest;
    }
    if (found != NULL && !has_same_runs(found)) {
        close_entry(found);
        server->next_list = 0;
        oldest = found;
        found = NULL;
    }
    if (found == NULL) {
        close_entry(oldest);
        tt_status st = fill_entry(server, oldest, q, key, err);
        if (st < 0) {
            close_entry(oldest);
            return st;
        }
        found = oldest;
    } else {
        free(key);
    }
    found->used = ++server->questions;
    for (size_t i = 0; i < TT_PAGE_RUNS_MOST && found->runs[i] != NULL; i++)
        found->about[i].state = tt_state_text(tt_run_state(found->runs[i]));
    *out = found;
    return TT_OK;
}

static tt_status ask_page(entry *e, const tt_question *q, tt_buf *body, tt_error *err)
{
    tt_status st = TT_OK;
    switch (q->asked) {
    case TT_ASKED_PAGE:
        return tt_page_first(e->page, body, err);
    case TT_ASKED_BLOCK:
        return tt_page_block(e->page, q->name, body, err);
    case TT_ASKED_DATA:
        st = tt_page_follow(e->page, err);
        return st < 0 ? st : tt_page_data(e->page, q->since, q->have, q->add, body, err);
    case TT_ASKED_RUNS:
        break;
    }
    return TT_EINVAL;
}

/* ---- the list ------------------------------------------------------------------- */

static tt_status put_list(tt_server *server, bool is_page, tt_buf *body, tt_error *err)
{
    tt_buf text = { 0 };
    tt_json json = { .out = &text, .is_compact = true };
    tt_status st = list_runs(server, err);
    if (st < 0)
        return st;
    tt_json_open(&json, NULL, '{');
    tt_json_text(&json, "version", TT_VERSION);
    tt_json_text(&json, "folder", server->title);
    tt_json_open(&json, "list", '[');
    tt_runs_json(&json, &server->runs, prefix_len(server));
    tt_json_close(&json);
    tt_json_open(&json, "runs", '[');
    tt_json_close(&json);
    tt_json_open(&json, "findings", '[');
    tt_json_close(&json);
    tt_json_close(&json);
    st = tt_json_finish(&json);
    if (st == TT_OK)
        st = is_page ? tt_page_wrap(&text, body) : tt_buf_append(body, text.data, text.len);
    tt_buf_free(&text);
    return st;
}

void tt_server_answer(tt_server *server, const tt_question *q, tt_response *out)
{
    tt_error err = { "" };
    tt_status st;
    bool is_list = q->asked == TT_ASKED_RUNS ||
                   (q->asked == TT_ASKED_PAGE && *q->runs[0] == '\0' && !is_single(server));
    *out = (tt_response){ .status = 200 };
    if (is_list) {
        st = put_list(server, q->asked == TT_ASKED_PAGE, &out->body, &err);
    } else {
        entry *e = NULL;
        st = find_page(server, q, &e, &err);
        if (st == TT_OK)
            st = ask_page(e, q, &out->body, &err);
        if (e != NULL && (st == TT_EFORMAT || st == TT_EIO ||
                          st == TT_ELIMIT)) { /* cut, perhaps: read it anew, once */
            tt_buf_clear(&out->body);
            close_entry(e);
            st = find_page(server, q, &e, &err);
            if (st == TT_OK)
                st = ask_page(e, q, &out->body, &err);
        }
    }
    out->type = q->asked == TT_ASKED_PAGE   ? "text/html; charset=utf-8"
                : q->asked == TT_ASKED_DATA ? "application/octet-stream"
                                            : "application/json";
    if (st == TT_OK)
        return;
    tt_buf_clear(&out->body);
    out->status = st == TT_ENOMEM ? 503 : 404;
    out->type = "text/plain; charset=utf-8";
    (void)tt_buf_printf(&out->body, "%s\n", err.text[0] != '\0' ? err.text : tt_status_text(st));
}
