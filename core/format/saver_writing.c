/* saver_writing.c -- what a thread does with a job that waits to be written.
 *
 * Exists because two kinds of threads do it: the saver's own, and whoever waits
 * for the end.  One writes, and if the tensor is large the other takes over the
 * checksum of what is being written, and writes from the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/saver.h"

void tt_saver_note_failure(tt_saver *saver, tt_status st, const tt_error *err)
{
    if (saver->failed++ == 0) {
        saver->st = st;
        saver->error = *err;
    }
}

void tt_saver_wait_change(tt_saver *saver)
{
    saver->waiting++;
    pthread_cond_wait(&saver->change, &saver->lock);
    saver->waiting--;
}

/* Is there a checksum to take over?  Where a file is written from both ends, each end does its own. */
static bool has_sum(const tt_job *job)
{
    return tt_format_of(job->format)->tail != NULL && !tt_ends_is_begun(&job->work.ends) &&
           tt_checksum_is_alone(&job->work.sum);
}

tt_job *tt_saver_find_alone(const tt_saver *saver)
{
    for (tt_job *at = saver->busy; at != NULL; at = at->next) {
        if (at->content.bytes >= TT_SAVER_LARGE && (tt_ends_is_open(&at->work.ends) || has_sum(at)))
            return at;
    }
    return NULL;
}

void tt_saver_help(tt_saver *saver, tt_job *with)
{
    with->helpers++;
    pthread_mutex_unlock(&saver->lock);
    if (tt_ends_is_open(&with->work.ends)) /* more to gain */
        tt_ends_help(&with->work.ends);
    else if (has_sum(with))
        tt_checksum_help(&with->work.sum, with->data, with->content.bytes, &with->filled);
    pthread_mutex_lock(&saver->lock);
    with->helpers--;
    if (saver->waiting > 0)
        pthread_cond_broadcast(&saver->change);
}

/* It is in `busy` meanwhile, for helpers. */
tt_status tt_saver_write(tt_saver *saver, tt_job *now, const tt_saved_source *source, tt_error *err)
{
    tt_job **at = &saver->busy;
    now->next = saver->busy;
    saver->busy = now;
    pthread_mutex_unlock(&saver->lock);
    tt_status st = tt_saved_write(now->path, now->format, &now->content, source, &now->work, err);
    tt_checksum_wait_filled(&now->filled, now->content.bytes); /* it may have failed early */
    pthread_mutex_lock(&saver->lock);
    while (now->helpers > 0)
        tt_saver_wait_change(saver);
    while (*at != now)
        at = &(*at)->next;
    *at = now->next;
    return st;
}

void tt_saver_write_first(tt_saver *saver)
{
    tt_job *now = saver->first;
    tt_error err;
    tt_saved_source source = { .data = now->data, .filled = &now->filled };
    saver->first = now->next;
    tt_status st = tt_saver_write(saver, now, &source, &err);
    if (st < 0)
        tt_saver_note_failure(saver, st, &err);
    tt_copy_pool_give(&saver->pool, now);
    if (saver->waiting > 0)
        pthread_cond_broadcast(&saver->change);
}
