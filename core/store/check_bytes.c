/* check_bytes.c -- whether every byte of a closed file is as it was written.
 *
 * Exists because this is what `check` is asked for, and the answer is nearly
 * always yes: checksums are of the bytes as they lie, so that nothing has to be
 * unpacked or kept.  Copying a file out of the page cache and hashing it take
 * longer than the copy alone, so a few threads share the blocks.  The file is
 * not mapped: one that becomes shorter meanwhile must not end the program.
 * Where the answer is no, check.c looks again, slowly, at what is damaged.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/check.h"
#include "store/file.h"
#include "store/value.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>

enum {
    THREADS_MAX = 4,
    SHARE = 16 << 20,   /* bytes for which another thread is worth its start */
    STRETCH = 256 << 10 /* half of a small L2 */
};

typedef struct byte_check {
    const tt_tap *tap;
    pthread_mutex_t lock; /* over all below */
    int64_t next;         /* the block that nobody has taken yet */
    tt_block_kind last;   /* kind of the block before it */
    tt_check about;
    tt_status st; /* the first that is not TT_OK */
} byte_check;

typedef struct worker {
    const tt_tap *tap;
    char *bytes;         /* owned; a stretch, aligned: copies to other places are many times slower */
    tt_hash_state *hash; /* owned */
    tt_buf body;         /* of a value; owned */
} worker;

/* Hashes n bytes of the file; keeps a copy of them if keep is not NULL. */
static tt_status hash_bytes(worker *w, int64_t at, int64_t n, tt_buf *keep, uint64_t *out)
{
    bool is_whole = n <= STRETCH;
    if (!is_whole)
        tt_hash_begin(w->hash);
    do {
        size_t some = n < STRETCH ? (size_t)n : STRETCH;
        tt_status st = tt_file_read(w->tap->fd, w->bytes, some, at);
        if (st == TT_OK && keep != NULL)
            st = tt_buf_append(keep, w->bytes, some);
        if (st < 0)
            return st;
        if (is_whole)
            *out = tt_block_hash(w->bytes, some);
        else
            tt_hash_add(w->hash, w->bytes, some);
        at += (int64_t)some;
        n -= (int64_t)some;
    } while (n > 0);
    if (!is_whole)
        *out = tt_hash_end(w->hash);
    return TT_OK;
}

/* TT_EFORMAT: not whole. */
static tt_status check_block(worker *w, int64_t at, const tt_block_head *head, tt_check *about)
{
    uint64_t hash;
    bool is_value = head->kind == TT_BLOCK_VALUE;
    tt_buf_clear(&w->body);
    tt_status st = hash_bytes(w, at + TT_BLOCK_HEADER, head->body, is_value ? &w->body : NULL, &hash);
    if (st < 0 || hash != head->check)
        return st < 0 ? st : TT_EFORMAT;
    about->blocks++;
    if (!is_value)
        return TT_OK;
    tt_value_head value;
    int64_t payload = tt_block_payload_at(head->body);
    if (tt_value_parse(&value, w->body.data, w->body.len) < 0 || value.stored > head->length - payload)
        return TT_EFORMAT;
    if (tt_index_is_hole(&w->tap->index, at)) {
        about->gone_values += value.before == 0; /* the first of its pieces; it is evicted first */
        return TT_OK;
    }
    about->values += value.before == 0;
    st = hash_bytes(w, at + payload, value.stored, NULL, &hash);
    return st == TT_OK && hash != value.check ? TT_EFORMAT : st;
}

/* Takes the next block; false: there is none.  Under the lock. */
static bool take_block(byte_check *v, int64_t *at, tt_block_head *head)
{
    unsigned char bytes[TT_BLOCK_HEADER];
    const tt_scan *scan = &v->tap->scan;
    if (v->st < 0 || v->next >= scan->size)
        return false;
    v->st = tt_file_read(v->tap->fd, bytes, sizeof bytes, v->next);
    if (v->st == TT_OK && (!tt_block_parse(bytes, v->next, head) || head->id != scan->id ||
                           head->length > scan->size - v->next))
        v->st = TT_EFORMAT;
    *at = v->next;
    v->next += v->st == TT_OK ? head->length : 0;
    v->last = head->kind;
    return v->st == TT_OK;
}

static void *work(void *of)
{
    byte_check *v = of;
    worker w = { .tap = v->tap, .bytes = aligned_alloc(4096, STRETCH), .hash = tt_hash_create() };
    tt_status st = w.bytes == NULL || w.hash == NULL ? TT_ENOMEM : TT_OK;
    tt_check mine = { 0 };
    for (bool goes_on = true; goes_on;) {
        int64_t at;
        tt_block_head head;
        pthread_mutex_lock(&v->lock);
        v->st = v->st == TT_OK ? st : v->st;
        goes_on = take_block(v, &at, &head);
        if (!goes_on) {
            v->about.blocks += mine.blocks;
            v->about.values += mine.values;
            v->about.gone_values += mine.gone_values;
        }
        pthread_mutex_unlock(&v->lock);
        if (goes_on)
            st = check_block(&w, at, &head, &mine);
    }
    free(w.bytes);
    tt_hash_free(w.hash);
    tt_buf_free(&w.body);
    return NULL;
}

/* More than the one that asks; where one cannot be had, the others do its work. */
static int start_others(byte_check *v, pthread_t others[THREADS_MAX - 1])
{
    cpu_set_t mine;
    int wanted = sched_getaffinity(0, sizeof mine, &mine) == 0 ? CPU_COUNT(&mine) : 1, count = 0;
    if (wanted > THREADS_MAX)
        wanted = THREADS_MAX;
    if (wanted > v->tap->scan.size / SHARE + 1)
        wanted = (int)(v->tap->scan.size / SHARE + 1);
    sigset_t all, before; /* signals are the program's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (count < wanted - 1 && pthread_create(&others[count], NULL, work, v) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return count;
}

tt_status tt_tap_check_bytes(const tt_tap *tap, tt_check *out)
{
    if (!tap->scan.is_closed)
        return TT_EFORMAT;
    byte_check v = { .tap = tap, .about = { .is_closed = true, .points = tap->index.points } };
    pthread_t others[THREADS_MAX - 1];
    pthread_mutex_init(&v.lock, NULL);
    (void)posix_fadvise(tap->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    int count = start_others(&v, others);
    (void)work(&v);
    for (int i = 0; i < count; i++)
        pthread_join(others[i], NULL);
    pthread_mutex_destroy(&v.lock);
    if (v.st == TT_OK && v.last != TT_BLOCK_END)
        v.st = TT_EFORMAT;
    if (v.st == TT_OK)
        *out = v.about;
    return v.st;
}
