/* sites.c -- names of places where tensors appear, as small integers.
 *
 * Exists so that the hot path handles an int32_t and never a string.  Rows lie
 * in segments that double in size and never move, so that a row found by number
 * needs no lock; `count` is published after the row is complete.
 *
 * lock: `slots`, `names`, and growing `segments`.  The rest is read freely.
 * SPDX-License-Identifier: Apache-2.0 */
#include "site/sites.h"

#include "base/buf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_SEGMENT = 64, SEGMENTS = 14 }; /* 64 * (2^14 - 1) rows */
_Static_assert(FIRST_SEGMENT *((1 << SEGMENTS) - 1) >= TT_SITES_MAX, "segments must hold every row");

struct tt_sites {
    pthread_mutex_t lock;
    _Atomic int32_t count;
    tt_site_row *segments[SEGMENTS]; /* owned; written once, before count says so */
    int32_t *slots;                  /* owned; hash table of row numbers, -1: empty */
    size_t slot_count;               /* a power of two */
    tt_arena names;
    size_t bytes; /* of all names */
};

static uint64_t hash_name(const char *name, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    return h ^ h >> 29;
}

static tt_site_row *row_at(const tt_sites *sites, int32_t site)
{
    uint32_t shifted = (uint32_t)site / FIRST_SEGMENT + 1;
    uint32_t segment = 31u - (uint32_t)__builtin_clz(shifted);
    uint32_t first = FIRST_SEGMENT * ((1u << segment) - 1);
    return &sites->segments[segment][(uint32_t)site - first];
}

tt_status tt_sites_create(tt_sites **out)
{
    tt_sites *sites = calloc(1, sizeof *sites);
    if (sites == NULL)
        return TT_ENOMEM;
    if (pthread_mutex_init(&sites->lock, NULL) != 0) {
        free(sites);
        return TT_ENOMEM;
    }
    *out = sites;
    return TT_OK;
}

void tt_sites_clear(tt_sites *sites)
{
    for (size_t i = 0; i < SEGMENTS; i++) {
        free(sites->segments[i]);
        sites->segments[i] = NULL;
    }
    free(sites->slots);
    sites->slots = NULL;
    sites->slot_count = sites->bytes = 0;
    sites->count = 0;
    tt_arena_free(&sites->names);
}

void tt_sites_free(tt_sites *sites)
{
    if (sites == NULL)
        return;
    tt_sites_clear(sites);
    pthread_mutex_destroy(&sites->lock);
    free(sites);
}

void tt_sites_after_fork(tt_sites *sites)
{
    (void)pthread_mutex_init(&sites->lock, NULL);
}

int32_t tt_sites_count(const tt_sites *sites)
{
    return atomic_load_explicit(&sites->count, memory_order_acquire);
}

tt_site_row *tt_sites_row(const tt_sites *sites, int32_t site)
{
    return site < 0 || site >= tt_sites_count(sites) ? NULL : row_at(sites, site);
}

/* The slot of a name, or the empty one where it belongs. */
static size_t find_slot(const tt_sites *sites, const char *name, size_t len)
{
    size_t at = (size_t)hash_name(name, len) & (sites->slot_count - 1);
    for (; sites->slots[at] >= 0; at = (at + 1) & (sites->slot_count - 1)) {
        const tt_site_row *row = row_at(sites, sites->slots[at]);
        if (row->len == len && memcmp(row->name, name, len) == 0)
            break;
    }
    return at;
}

static tt_status grow_slots(tt_sites *sites)
{
    size_t count = sites->slot_count == 0 ? 64 : sites->slot_count * 2;
    int32_t *slots = malloc(count * sizeof *slots);
    if (slots == NULL)
        return TT_ENOMEM;
    memset(slots, 0xff, count * sizeof *slots);
    free(sites->slots);
    sites->slots = slots;
    sites->slot_count = count;
    for (int32_t i = 0; i < sites->count; i++) {
        const tt_site_row *row = row_at(sites, i);
        slots[find_slot(sites, row->name, row->len)] = i;
    }
    return TT_OK;
}

static tt_status add_row(tt_sites *sites, const char *name, size_t len, const tt_plan *plan, int32_t *out)
{
    int32_t site = sites->count;
    if (site >= TT_SITES_MAX || len > TT_SITE_NAME_MAX || sites->bytes + len > TT_SITES_BYTES_MAX)
        return TT_EINVAL;
    if ((size_t)site * 2 >= sites->slot_count) {
        tt_status st = grow_slots(sites);
        if (st < 0)
            return st;
    }
    uint32_t segment = 31u - (uint32_t)__builtin_clz((uint32_t)site / FIRST_SEGMENT + 1);
    if (sites->segments[segment] == NULL) {
        sites->segments[segment] = calloc((size_t)FIRST_SEGMENT << segment, sizeof(tt_site_row));
        if (sites->segments[segment] == NULL)
            return TT_ENOMEM;
    }
    char *copy = tt_arena_text(&sites->names, name, len);
    if (copy == NULL)
        return TT_ENOMEM;
    sites->bytes += len;
    tt_site_row *row = row_at(sites, site);
    row->name = copy;
    row->len = (uint32_t)len;
    row->products = plan != NULL ? tt_plan_products(plan, copy) : 0;
    row->every = plan != NULL && plan->every > 0 ? plan->every : 1;
    sites->slots[find_slot(sites, name, len)] = site;
    atomic_store_explicit(&sites->count, site + 1, memory_order_release);
    *out = site;
    return TT_OK;
}

tt_status tt_sites_intern(tt_sites *sites, const char *name, size_t len, const tt_plan *plan,
                          int32_t *out)
{
    tt_status st = TT_OK;
    pthread_mutex_lock(&sites->lock);
    int32_t site = sites->slot_count > 0 ? sites->slots[find_slot(sites, name, len)] : -1;
    if (site < 0)
        st = add_row(sites, name, len, plan, &site);
    pthread_mutex_unlock(&sites->lock);
    if (st == TT_OK)
        *out = site;
    return st;
}

int32_t tt_sites_find(const tt_sites *sites, const char *name, size_t len)
{
    /* The lock is the one part of a table that a reader may change. */
    pthread_mutex_t *lock = (pthread_mutex_t *)&sites->lock;
    pthread_mutex_lock(lock);
    int32_t site = sites->slot_count > 0 ? sites->slots[find_slot(sites, name, len)] : -1;
    pthread_mutex_unlock(lock);
    return site;
}
