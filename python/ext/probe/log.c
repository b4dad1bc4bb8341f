/* log.c -- the list of rows behind log.h.
 *
 * One list for the process: the operator gets no argument that could lead to another.  The lock
 * is held for the copy of one row.
 * SPDX-License-Identifier: Apache-2.0 */
#include "probe/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static probe_rows log_rows;         /* guarded by lock */
static _Atomic size_t log_count;    /* of log_rows.count */
static _Atomic uint32_t threads;    /* numbers given to threads */
static _Thread_local uint32_t mine; /* 0: none yet */

/* A forked child gets the lock open; the rows stay with the parent. */
static void lock_for_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void unlock_in_child(void)
{
    log_rows.count = 0; /* what the rows own is lost: a few bytes, once */
    log_count = 0;
    pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    (void)pthread_atfork(lock_for_fork, unlock_in_parent, unlock_in_child);
}

uint32_t probe_log_thread(void)
{
    if (mine == 0)
        mine = ++threads;
    return mine;
}

size_t probe_log_count(void)
{
    return atomic_load_explicit(&log_count, memory_order_relaxed);
}

static void free_row(probe_row *row)
{
    tensor_products_free(&row->products);
    free(row->value);
}

void probe_rows_free(probe_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free_row(&rows->all[i]);
    free(rows->all);
    *rows = (probe_rows){ 0 };
}

static void copy_row(probe_row *to, const probe_row *from)
{
    memcpy(to, from, offsetof(probe_row, shape) + (size_t)from->ndim * sizeof *from->shape);
}

static bool has_room(probe_rows *rows)
{
    if (rows->count < rows->cap)
        return true;
    size_t cap = rows->cap > 0 ? rows->cap * 2 : 64;
    probe_row *grown = realloc(rows->all, cap * sizeof *grown);
    if (grown == NULL)
        return false;
    rows->all = grown;
    rows->cap = cap;
    return true;
}

void probe_log_append(probe_row *row)
{
    (void)pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    bool is_kept = has_room(&log_rows);
    if (is_kept) {
        copy_row(&log_rows.all[log_rows.count++], row);
        log_count = log_rows.count;
    }
    pthread_mutex_unlock(&lock);
    if (!is_kept)
        free_row(row);
}

void probe_log_take(uint32_t thread, probe_rows *out)
{
    *out = (probe_rows){ 0 };
    if (probe_log_count() == 0)
        return;
    pthread_mutex_lock(&lock);
    size_t kept = 0;
    for (size_t i = 0; i < log_rows.count; i++) {
        probe_row *row = &log_rows.all[i];
        bool is_taken = (thread == 0 || row->thread == thread) && has_room(out);
        if (is_taken)
            copy_row(&out->all[out->count++], row);
        else if (kept++ != i)
            copy_row(&log_rows.all[kept - 1], row);
    }
    log_rows.count = kept;
    log_count = kept;
    pthread_mutex_unlock(&lock);
}
