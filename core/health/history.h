/* history.h -- the courses of one file of a run, and what belongs together among them.
 *
 * For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_HISTORY_H
#define TT_HEALTH_HISTORY_H

#include "base/buf.h"
#include "health/course.h"
#include "site/sites.h"

/* A parameter or a module: one name without its kind, and the course of each kind. */
typedef struct tt_subject {
    int32_t of[TT_COURSE_KIND_COUNT_]; /* number of the course plus 1; 0: none */
    const char *class_name;            /* borrowed; NULL: no module */
} tt_subject;

enum { TT_GAPS_MOST = 4 }; /* notes about what was not seen that a verdict repeats */

typedef struct tt_history {
    int32_t rank;
    tt_course *courses; /* owned */
    int32_t count;
    size_t cap;
    int32_t *by_site; /* owned; number of the course of a site plus 1; 0: none */
    size_t by_site_cap;
    tt_sites *names;      /* owned; of subjects */
    tt_sites *patterns;   /* owned; names with # for each number */
    tt_subject *subjects; /* owned */
    size_t subject_cap;
    tt_arena texts;
    int64_t last_step;         /* -1: no point */
    int64_t round, round_step; /* the micro-batch that runs, while a run is written */
    bool is_round_over;        /* backward() has been called in it */
    const char *allow;         /* borrowed; a glob of sites that may hold NaN or Inf; NULL: none */
    int64_t unread;            /* points that are damaged */
    int32_t unjoined;          /* sites that ranks have parts of which could not be joined */
    int32_t modules;           /* of the file that were read ... */
    int32_t settings_read;     /* ... the same of settings */
    tt_setting *settings;      /* owned; texts are of the history; the last of a key is valid */
    int32_t setting_count;
    size_t setting_cap;
    const char *stopped;            /* borrowed; the exception that ended the process; NULL: none */
    const char *gaps[TT_GAPS_MOST]; /* borrowed; notes: "66 tensors could not be read: wrapper" */
    int32_t gap_count;
} tt_history;

/* The loss of one rank. */
typedef struct tt_rank_loss {
    int32_t rank;
    tt_course course;
} tt_rank_loss;

/* Of every file of a run; of one that is joined there is one, of the whole job. */
struct tt_histories {
    tt_history *files; /* owned */
    int32_t count;
    size_t cap;
    bool is_joined;
    int64_t insertions;   /* of the run when it was read: points between others make all be read anew */
    tt_rank_loss *losses; /* owned; joined: of each rank */
    int32_t loss_count;
    size_t loss_cap;
};

tt_status tt_history_create(int32_t rank, tt_history *out);
void tt_history_free(tt_history *history);
/* The course of a site, made if there is none; NULL: out of memory. */
tt_course *tt_history_course(tt_history *history, int32_t site, const char *name);
tt_status tt_history_module(tt_history *history, const char *path, const char *class_name);
/* The class of the module at a path; NULL: it is not known. */
const char *tt_history_class(const tt_history *history, const char *path);
/* Takes in what the program has set. */
tt_status tt_history_set(tt_history *history, const char *key, const char *value);
/* The value of a key; NULL: none. */
const char *tt_history_setting(const tt_history *history, const char *key);
/* Returns the course that follows in the order of the sites, or the first one after NULL; NULL: no more. */
const tt_course *tt_history_next(const tt_history *history, const tt_course *after);
/* The course of this kind with the same tail; NULL: none. */
const tt_course *tt_history_of(const tt_history *history, const tt_course *course, tt_course_kind kind);
/* The same of a name that is made of two parts: ("fc", ".weight"). */
const tt_course *tt_history_find(const tt_history *history, tt_course_kind kind, const char *name,
                                 const char *ending);

/* read.c: points into courses, from the file and from the program. */
/* Reads the points of a run that have not been read; *histories is made if it is NULL.  Points that
 * cannot be read because the file is damaged are left out.  joined: the same run with its ranks joined, of which
 * everything is read again; NULL: it cannot be joined. */
tt_status tt_histories_read(tt_histories **histories, tt_run *run, tt_run *joined, tt_error *err);
/* Takes in one event. */
void tt_history_see(tt_history *history, tt_course *course, const tt_event *event);

#endif
