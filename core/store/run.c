/* run.c -- opens a run, joins its files, follows them while they grow.
 *
 * Exists so that readers see one run, whatever the number of ranks.  Files are
 * read with pread: a mapped file that is cut meanwhile would kill the process.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"
#include "store/join/join.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 1 << 14, MISSED_MAX = 1 << 20 };

tt_status tt_tap_fail(const tt_tap *tap, tt_status st, tt_error *err, const char *format, ...)
{
    char what[96];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    /* Half a path is no command. */
    const char *path = strlen(tap->path) <= 80 ? tap->path : "RUN";
    if (st == TT_EFORMAT)
        return tt_fail(err, st,
                       "%s cannot be read, the file is damaged; save the rest with: "
                       "tensortap check --repair %s",
                       what, path);
    if (st == TT_ELIMIT)
        return tt_fail(err, st, "%.100s: %s claims more than a run can hold; it was refused", path, what);
    return tt_fail(err, st, "%.100s: %s: %s", tap->path, what, tt_status_text(st));
}

static void free_tap(tt_tap *tap)
{
    if (tap == NULL)
        return;
    if (tap->fd >= 0)
        (void)close(tap->fd);
    tt_index_free(&tap->index);
    tt_scan_free(&tap->scan);
    tt_sites_free(tap->sites);
    tt_arena_free(&tap->texts);
    free(tap->local);
    free((void *)tap->info);
    free(tap->notes);
    free(tap->modules);
    free(tap->settings);
    free(tap->thinned);
    free(tap->meshes);
    free(tap->placements);
    free((void *)tap->known);
    tt_join_free(tap->join);
    free(tap->path);
    free(tap);
}

void tt_run_close(tt_run *run)
{
    if (run == NULL)
        return;
    for (int32_t i = 0; i < run->count; i++)
        free_tap(run->taps[i]);
    free(run->taps);
    tt_sites_free(run->sites);
    tt_buf_free(&run->scratch);
    tt_points_free(&run->points);
    free(run->cells);
    free(run->missed);
    free(run->path);
    free(run);
}

/* "rank3.tap" or "rank3.1234.tap". */
static bool parse_name(const char *name, int32_t *rank, int32_t *child)
{
    int len = -1;
    *child = 0;
    if (sscanf(name, "rank%9d.tap%n", rank, &len) == 1 && len > 0 && name[len] == '\0')
        return *rank >= 0;
    len = -1;
    return sscanf(name, "rank%9d.%9d.tap%n", rank, child, &len) == 2 && len > 0 && name[len] == '\0' &&
           *rank >= 0;
}

/* New names of a file get their place among those of the run. */
static tt_status join_sites(tt_run *run, tt_tap *tap)
{
    tt_status st = TT_OK;
    for (int32_t count = tt_sites_count(tap->sites); st == TT_OK && tap->joined < count; tap->joined++) {
        const tt_site_row *row = tt_sites_row(tap->sites, tap->joined);
        int32_t site;
        st = tt_sites_intern(run->sites, row->name, row->len, NULL, &site);
        if (st < 0)
            break;
        size_t before = tap->local_cap;
        st = tt_grow(&tap->local, &tap->local_cap, (size_t)site + 1, sizeof site);
        if (st < 0)
            return st;
        memset(tap->local + before, 0xff, (tap->local_cap - before) * sizeof site);
        tap->local[site] = tap->joined;
    }
    return st == TT_EINVAL ? TT_EFORMAT : st;
}

static tt_status refuse(const tt_tap *tap, tt_error *err)
{
    size_t len = strlen(tap->path), most = 90; /* the end of a path says more */
    return tt_fail(err, TT_ELIMIT,
                   "%s%s is refused: at byte %lld it claims more points than its %lld bytes can hold; "
                   "no recorder wrote this",
                   len > most ? "..." : "", tap->path + (len > most ? len - most : 0),
                   (long long)tap->index.refused_at, (long long)tap->scan.size);
}

static tt_status add_tap(tt_run *run, const char *path, int32_t rank, int32_t child, tt_error *err)
{
    tt_tap *tap = calloc(1, sizeof *tap);
    if (tap == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    tap->fd = -1;
    tap->rank = rank;
    tap->child = child;
    tt_status st = tt_sites_create(&tap->sites);
    tap->index.sites = tap->sites;
    tap->path = strdup(path);
    if (st == TT_OK && tap->path == NULL)
        st = TT_ENOMEM;
    if (st < 0)
        goto out;
    tap->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* never wait for a fifo */
    struct stat about;
    if (tap->fd < 0 || fstat(tap->fd, &about) < 0) {
        st = tt_fail(err, TT_EIO, "%.180s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(about.st_mode)) {
        st = tt_fail(err, TT_EFORMAT, "%.180s is not a file", path);
        goto out;
    }
    st = tt_scan_open(&tap->scan, tap->fd, &tap->index);
    if (st == TT_ELIMIT)
        (void)refuse(tap, err);
    if (st == TT_OK && tap->scan.id == 0 && about.st_size > 0)
        st = tt_fail(err, TT_EFORMAT, "%.180s is not a run file, or its beginning is damaged", path);
    else if (st == TT_OK)
        st = join_sites(run, tap);
    if (st == TT_OK)
        st = tt_run_texts(tap);
    if (st == TT_OK)
        st = tt_grow(&run->taps, &run->cap, (size_t)run->count + 1, sizeof *run->taps);
    if (st == TT_OK)
        run->taps[run->count++] = tap;
out:
    if (st < 0) {
        free_tap(tap);
        if (err != NULL && err->text[0] == '\0')
            (void)tt_fail(err, st, "%.180s: %s", path, tt_status_text(st));
    }
    return st;
}

static bool has_path(const tt_run *run, const char *path)
{
    for (int32_t i = 0; i < run->count; i++)
        if (strcmp(run->taps[i]->path, path) == 0)
            return true;
    return false;
}

static int by_rank(const void *a, const void *b)
{
    const tt_tap *x = *(tt_tap *const *)a, *y = *(tt_tap *const *)b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->child > y->child) - (x->child < y->child);
}

/* Opens the files of a folder that are not open yet. */
static tt_status list_folder(tt_run *run, tt_error *err)
{
    DIR *folder = opendir(run->path);
    if (folder == NULL)
        return tt_fail(err, TT_EIO, "%.180s: %s", run->path, strerror(errno));
    tt_status st = TT_OK;
    int32_t before = run->count;
    for (struct dirent *entry;
         st == TT_OK && run->count < FILES_MAX && (entry = readdir(folder)) != NULL;) {
        int32_t rank, child;
        char *path; /* owned */
        if (!parse_name(entry->d_name, &rank, &child))
            continue;
        if (asprintf(&path, "%s/%s", run->path, entry->d_name) < 0)
            path = NULL;
        if (path == NULL)
            st = tt_fail_plain(err, TT_ENOMEM);
        else if (!has_path(run, path))
            st = add_tap(run, path, rank, child, err);
        free(path);
    }
    (void)closedir(folder);
    if (run->count > before)
        qsort(run->taps + before, (size_t)(run->count - before), sizeof *run->taps, by_rank);
    return st;
}

bool tt_file_is_written(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_held = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        (void)close(fd);
    return is_held;
}

/* Is there nothing in any file, and no writer that may still write? */
static bool is_empty(const tt_run *run)
{
    for (int32_t i = 0; i < run->count; i++)
        if (run->taps[i]->scan.size > 0 ||
            (flock(run->taps[i]->fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK))
            return false;
    for (int32_t i = 0; i < run->count; i++)
        (void)flock(run->taps[i]->fd, LOCK_UN);
    return true;
}

tt_status tt_run_open(const char *path, tt_run **out, tt_error *err)
{
    if (err != NULL)
        err->text[0] = '\0';
    struct stat about;
    if (stat(path, &about) < 0)
        return tt_fail(err, TT_EIO, "%.180s: %s", path, strerror(errno));
    tt_run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return tt_fail_plain(err, TT_ENOMEM);
    run->points_at = -1;
    run->is_folder = S_ISDIR(about.st_mode);
    run->path = strdup(path);
    tt_status st = run->path != NULL ? tt_sites_create(&run->sites) : TT_ENOMEM;
    if (st < 0) {
        (void)tt_fail_plain(err, st);
        goto out;
    }
    if (run->is_folder) {
        st = list_folder(run, err);
        if (st == TT_OK && run->count == 0)
            st = tt_fail(err, TT_EFORMAT,
                         "%.150s holds no run (no rank*.tap in it); 'tensortap ls' looks further down",
                         path);
    } else {
        const char *name = strrchr(path, '/');
        int32_t rank = 0, child = 0;
        if (!parse_name(name != NULL ? name + 1 : path, &rank, &child))
            rank = 0;
        st = add_tap(run, path, rank, child, err);
    }
    if (st == TT_OK && is_empty(run))
        st = tt_fail(err, TT_EFORMAT, "%.150s: %s is empty: nothing was recorded", path,
                     run->count > 1 ? "every file" : "the file");
out:
    if (st == TT_OK)
        *out = run;
    else
        tt_run_close(run);
    return st;
}

tt_status tt_run_refresh(tt_run *run, tt_error *err)
{
    tt_status st = TT_OK;
    run->points_at = -1;
    for (int32_t i = 0; st == TT_OK && i < run->count; i++) {
        tt_tap *tap = run->taps[i];
        if (tap->join != NULL)
            return TT_OK; /* joined once: whoever follows a run joins it anew */
        st = tt_scan_follow(&tap->scan);
        if (st == TT_OK)
            st = join_sites(run, tap);
        if (st == TT_OK)
            st = tt_run_texts(tap);
        if (st == TT_ELIMIT)
            return refuse(tap, err);
        if (st < 0)
            return tt_fail(err, st, "%.180s: %s", tap->path,
                           st == TT_EFORMAT ? "the file became shorter: open the run anew"
                                            : tt_status_text(st));
    }
    return run->is_folder ? list_folder(run, err) : TT_OK;
}

int32_t tt_run_file_count(const tt_run *run)
{
    return run->count;
}

tt_status tt_run_file_get(const tt_run *run, int32_t file, tt_run_file *out)
{
    if (file < 0 || file >= run->count)
        return TT_EINVAL;
    const tt_tap *tap = run->taps[file];
    *out = (tt_run_file){
        .path = tap->path,
        .rank = tap->rank,
        .is_closed = tap->scan.is_closed,
        .bytes = tap->scan.size,
        .points = tap->index.points,
        .first_step = tap->index.steps.first,
        .last_step = tap->index.steps.last,
        .dropped_events = tap->index.lost_events,
        .damaged_bytes = tap->scan.damaged,
    };
    const tt_offsets *sessions = &tap->index.sessions;
    if (tap->stopped != NULL &&
        (sessions->count == 0 || tap->stopped_at > sessions->at[sessions->count - 1]))
        out->stopped = tap->stopped; /* and the run did not go on */
    return TT_OK;
}

bool tt_stop_is_consequence(const char *stopped)
{
    static const char *const signs[] = {
        "closed by peer",   "reset by peer",    "roken pipe",     "imed out", "imeout",           "NCCL",
        "DistBackendError", "DistNetworkError", "DistStoreError", "gloo",     "onnection refused"
    };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (strstr(stopped, signs[i]) != NULL)
            return true;
    return false;
}

/* The step in which an exception ended the program. */
static int64_t stop_step(const tt_tap *tap)
{
    for (int32_t i = tap->note_count; i-- > 0;)
        if (tap->notes[i].text == tap->stopped)
            return tap->notes[i].step;
    return INT64_MAX;
}

int32_t tt_run_stopped_first(const tt_run *run)
{
    int32_t first = -1;
    tt_run_file file, best = { 0 };
    for (int32_t f = 0; tt_run_file_get(run, f, &file) == TT_OK; f++) {
        if (file.stopped == NULL)
            continue;
        bool is_consequence = tt_stop_is_consequence(file.stopped),
             was_consequence = first >= 0 && tt_stop_is_consequence(best.stopped);
        if (first < 0 ||
            (is_consequence != was_consequence ? was_consequence
                                               : stop_step(run->taps[f]) < stop_step(run->taps[first]))) {
            first = f;
            best = file;
        }
    }
    return first;
}

tt_totals tt_run_totals(const tt_run *run)
{
    tt_totals all = { 0 };
    tt_span steps = TT_SPAN_NONE;
    tt_run_file file;
    for (int32_t f = 0; tt_run_file_get(run, f, &file) == TT_OK; f++) {
        all.bytes += file.bytes;
        all.points += file.points;
        all.dropped_events += file.dropped_events;
        all.damaged_bytes += file.damaged_bytes;
        if (file.last_step >= file.first_step)
            tt_span_add(&steps, file.first_step, file.last_step);
    }
    all.first_step = steps.first;
    all.last_step = steps.last;
    if (tt_run_file_get(run, tt_run_stopped_first(run), &file) == TT_OK)
        all.stopped = file.stopped;
    return all;
}

bool tt_run_outgrows(const tt_run *run, int64_t bytes)
{
    enum { FREE = 256 << 20, TIMES = 32 };
    return bytes > FREE && bytes / TIMES > tt_run_totals(run).bytes;
}

int32_t tt_run_site_count(const tt_run *run)
{
    return tt_sites_count(run->sites);
}

const char *tt_run_site_name(const tt_run *run, int32_t site)
{
    const tt_site_row *row = tt_sites_row(run->sites, site);
    return row != NULL ? row->name : NULL;
}

int32_t tt_run_find(const tt_run *run, const char *name)
{
    return tt_sites_find(run->sites, name, strlen(name));
}

tt_index_site *tt_run_row(const tt_run *run, int32_t file, int32_t site)
{
    if (file < 0 || file >= run->count || site < 0 || (size_t)site >= run->taps[file]->local_cap)
        return NULL;
    tt_tap *tap = run->taps[file];
    int32_t local = tap->local[site];
    if (tap->join != NULL)
        tt_join_make(tap->join, tap, site);
    return local < 0 || local >= tap->index.count ? NULL : &tap->index.row[local];
}

size_t tt_run_points(const tt_run *run, int32_t file, int32_t site)
{
    const tt_index_site *row = tt_run_row(run, file, site);
    return row != NULL ? (size_t)row->stored : 0;
}

bool tt_run_has_points(const tt_run *run, int32_t site)
{
    for (int32_t file = 0; file < run->count; file++)
        if (tt_run_points(run, file, site) > 0)
            return true;
    return false;
}

tt_status tt_run_stretches(const tt_run *run, int32_t file, tt_stretch *out, size_t cap, size_t *count)
{
    if (file < 0 || file >= run->count || run->taps[file]->join != NULL)
        return TT_EINVAL;
    const tt_index *index = &run->taps[file]->index;
    const tt_offsets *const texts[] = { &index->sessions, &index->notes };
    size_t n = 0;
    for (int32_t site = 0; site < index->count; site++)
        for (uint32_t k = 0; k < index->row[site].count; k++, n++)
            if (n < cap)
                out[n] = (tt_stretch){ index->row[site].chunks[k].at, index->row[site].chunks[k].len };
    for (size_t t = 0; t < 2; t++)
        for (uint32_t i = 0; i < texts[t]->count; i++, n++)
            if (n < cap)
                out[n] = (tt_stretch){ texts[t]->at[i], 0 };
    *count = n;
    return TT_OK;
}

void tt_run_note_missed(tt_run *run)
{
    run->notes_missed = true;
}

size_t tt_run_missed(const tt_run *run, const tt_missed **out)
{
    *out = run->missed;
    return run->missed_count;
}

tt_status tt_run_miss(tt_run *run, const tt_tap *tap, tt_status st, int64_t at, int64_t len)
{
    const tt_missed missed = { tap->path, at, len };
    const tt_missed *last = run->missed_count > 0 ? &run->missed[run->missed_count - 1] : NULL;
    bool is_new = last == NULL || last->at != at || last->path != tap->path;
    if (st == TT_EFORMAT && run->notes_missed && is_new && run->missed_count < MISSED_MAX &&
        tt_grow(&run->missed, &run->missed_cap, run->missed_count + 1, sizeof missed) == TT_OK)
        run->missed[run->missed_count++] = missed;
    return st;
}

int64_t tt_run_insertions(const tt_run *run)
{
    int64_t all = 0;
    for (int32_t file = 0; file < run->count; file++)
        all += run->taps[file]->index.insertions;
    return all;
}
