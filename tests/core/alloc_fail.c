/* alloc_fail.c -- lets a test make the Nth allocation of the core fail.
 * SPDX-License-Identifier: Apache-2.0 */
#include "alloc_fail.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The linker's names for the real functions and for ours. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t n);

static atomic_long count, fail_at;
static atomic_size_t largest;

static bool must_fail(void)
{
    return atomic_fetch_add(&count, 1) + 1 == atomic_load(&fail_at);
}

void alloc_fail_at(long nth)
{
    atomic_store(&fail_at, atomic_load(&count) + nth);
    atomic_store(&largest, 0);
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

size_t alloc_largest(void)
{
    return atomic_load(&largest);
}

void *__wrap_malloc(size_t n)
{
    if (n > atomic_load(&largest))
        atomic_store(&largest, n);
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

void alloc_fail_each(tt_status (*write)(const void *with, tt_buf *out), const void *with)
{
    bool was_hit = true;
    for (long nth = 1; was_hit; nth++) {
        tt_buf out = { 0 };
        alloc_fail_at(nth);
        tt_status st = write(with, &out);
        was_hit = alloc_fail_stop();
        tt_buf_free(&out);
        assert_int_equal(st, was_hit ? TT_ENOMEM : TT_OK);
    }
}
