/* copy_pool.c -- copies of tensors on their way to files, in memory that is used again and again.
 *
 * Exists because fresh memory costs more (page faults) than the copy itself, and
 * memory that was just written to a file is still in the cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/copy_pool.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, ALIGN = 64 };

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

size_t tt_job_size(const char *path, const tt_tensor *t)
{
    return round_up(sizeof(tt_job) + strlen(path) + 1) +
           round_up((size_t)t->count * tt_dtype_size(t->dtype));
}

void tt_copy_pool_drop(tt_copy_pool *pool, size_t down_to)
{
    while (pool->blocks != NULL && pool->spare > down_to) {
        tt_job *gone = pool->blocks;
        pool->blocks = gone->next;
        pool->spare -= gone->room;
        free(gone);
    }
}

/* A block that fits and is not much too large, the latest used first; NULL: none. */
static tt_job *take_spare(tt_copy_pool *pool, size_t need)
{
    for (tt_job **at = &pool->blocks; *at != NULL; at = &(*at)->next) {
        tt_job *found = *at;
        if (found->room >= need && found->room / 2 <= need) {
            *at = found->next;
            pool->spare -= found->room;
            return found;
        }
    }
    return NULL;
}

/* Large ones in huge pages: far fewer faults. */
static tt_job *new_block(size_t need)
{
    bool is_huge = need >= HUGE_PAGE;
    size_t align = is_huge ? HUGE_PAGE : ALIGN;
    tt_job *block = aligned_alloc(align, (need + align - 1) & ~(align - 1));
    if (block == NULL)
        return NULL;
    if (is_huge)
        (void)madvise(block, need, MADV_HUGEPAGE);
    block->room = need;
    return block;
}

tt_job *tt_copy_pool_take(tt_copy_pool *pool, const char *path, tt_format format, const tt_tensor *t,
                          const char *dtype_name)
{
    size_t need = tt_job_size(path, t), path_len = strlen(path) + 1;
    tt_job *job = take_spare(pool, need);
    if (job == NULL) {
        tt_copy_pool_drop(pool, pool->used + need < pool->most ? pool->most - pool->used - need : 0);
        job = new_block(need);
    }
    if (job == NULL)
        return NULL;
    pool->used += job->room;
    job->next = NULL;
    job->path = memcpy((char *)job + sizeof *job, path, path_len);
    job->format = format;
    job->elements = (char *)job + round_up(sizeof *job + path_len);
    job->bytes = (size_t)t->count * tt_dtype_size(t->dtype);
    job->filled = 0;
    (void)snprintf(job->dtype_name, sizeof job->dtype_name, "%s", dtype_name != NULL ? dtype_name : "");
    tt_status st = tt_tensor_describe(&job->copy, job->elements, t->dtype, t->ndim, t->shape, NULL, NULL);
    assert(st == TT_OK); /* as t itself */
    (void)st;
    return job;
}

void tt_copy_pool_give(tt_copy_pool *pool, tt_job *job)
{
    pool->used -= job->room;
    job->next = pool->blocks;
    pool->blocks = job;
    pool->spare += job->room;
}
