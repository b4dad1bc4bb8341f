/* alloc_fail.c -- lets a test make the Nth allocation of the core fail.
 * SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fail.h"

#include <stdatomic.h>
#include <stddef.h>

/* The linker's names for the real functions and for ours. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t n);

static atomic_long count, fail_at;

static bool must_fail(void)
{
    return atomic_fetch_add(&count, 1) + 1 == atomic_load(&fail_at);
}

void alloc_fail_at(long nth)
{
    atomic_store(&fail_at, atomic_load(&count) + nth);
}

bool alloc_fail_stop(void)
{
    long at = atomic_exchange(&fail_at, 0);
    return at > 0 && atomic_load(&count) >= at;
}

long alloc_count(void)
{
    return atomic_load(&count);
}

void *__wrap_malloc(size_t n)
{
    return must_fail() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t items, size_t size)
{
    return must_fail() ? NULL : __real_calloc(items, size);
}

void *__wrap_realloc(void *old, size_t n)
{
    return must_fail() ? NULL : __real_realloc(old, n);
}
