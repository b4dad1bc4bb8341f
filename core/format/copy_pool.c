/* copy_pool.c -- memory for copies of tensors, used again and again.
 *
 * Exists because fresh memory costs more (page faults) than the copy itself, and
 * memory that was just written to a file is still in the cache.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/copy_pool.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20 };

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
    size_t align = is_huge ? HUGE_PAGE : TT_JOB_ALIGN;
    tt_job *block = aligned_alloc(align, (need + align - 1) & ~(align - 1));
    if (block == NULL)
        return NULL;
    if (is_huge)
        (void)madvise(block, need, MADV_HUGEPAGE);
    block->room = need;
    return block;
}

tt_job *tt_copy_pool_take(tt_copy_pool *pool, size_t need)
{
    tt_job *block = take_spare(pool, need);
    if (block == NULL) {
        tt_copy_pool_drop(pool, pool->used + need < pool->most ? pool->most - pool->used - need : 0);
        block = new_block(need);
    }
    if (block != NULL)
        pool->used += block->room;
    return block;
}

void tt_copy_pool_give(tt_copy_pool *pool, tt_job *block)
{
    pool->used -= block->room;
    block->next = pool->blocks;
    pool->blocks = block;
    pool->spare += block->room;
}
