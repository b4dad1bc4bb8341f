/* saver_writing.c -- what a thread does with a job that waits to be written.
 *
 * Exists because two kinds of threads do it: the saver's own, and whoever waits
 * for the end.  One writes, and if the tensor is large the other takes over the
 * checksum of what is being written.
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

tt_job *tt_saver_find_alone(const tt_saver *saver)
{
    for (tt_job *at = saver->busy; at != NULL; at = at->next)
        if (at->content.bytes >= TT_SAVER_LARGE && tt_format_of(at->format)->tail != NULL &&
            tt_checksum_is_alone(&at->sum))
            return at;
    return NULL;
}

void tt_saver_help(tt_saver *saver, tt_job *with)
{
    with->helpers++;
    pthread_mutex_unlock(&saver->lock);
    tt_checksum_help(&with->sum, with->data, with->content.bytes, &with->filled);
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
    tt_status st = tt_saved_write(now->path, now->format, &now->content, source, &now->sum, err);
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
