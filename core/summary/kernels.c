/* kernels.c -- picks the inner loops for this machine, once.
 *
 * Exists so that every summary is written without asking what the machine can
 * do.  TENSORTAP_ISA names a set by hand; one that the machine does not have
 * falls back to the best it has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define DECLARE(isa) TT_KERNEL_MAP(DECLARE_##isa)
#define DECLARE_base(name, type) type tt_##name##_base;
#define DECLARE_avx2(name, type) type tt_##name##_avx2;
#define DECLARE_neon(name, type) type tt_##name##_neon;
#define ROW_base(name, type) .name = tt_##name##_base,
#define ROW_avx2(name, type) .name = tt_##name##_avx2,
#define ROW_neon(name, type) .name = tt_##name##_neon,
#define TABLE(isa_name) \
    DECLARE(isa_name)   \
    static const tt_kernels table_##isa_name = { .isa = #isa_name, TT_KERNEL_MAP(ROW_##isa_name) };

#if defined(__aarch64__)
TABLE(neon)
static const tt_kernels *const tables[] = { &table_neon };
#elif defined(__x86_64__)
TABLE(base)
TABLE(avx2)
static const tt_kernels *const tables[] = { &table_avx2, &table_base };
#else
TABLE(base)
static const tt_kernels *const tables[] = { &table_base };
#endif

enum { TABLES = sizeof tables / sizeof *tables };

#if defined(__x86_64__)
/* AVX2 and F16C, and an operating system that saves the registers.  Not by
 * __builtin_cpu_supports: it needs a part of libgcc that zig does not have. */
static bool has_avx2(void)
{
    enum { SSE_AND_AVX = 6 }; /* bits of the registers that are saved */
    unsigned a, b, c = 0, d, saved = 0, unused;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0 || (c & bit_F16C) == 0)
        return false;
    __asm__("xgetbv" : "=a"(saved), "=d"(unused) : "c"(0));
    return (saved & SSE_AND_AVX) == SSE_AND_AVX && __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
           (b & bit_AVX2) != 0;
}
#endif

static bool is_usable(const tt_kernels *table)
{
#if defined(__x86_64__)
    return table != &table_avx2 || has_avx2();
#else
    (void)table;
    return true;
#endif
}

/* Two threads that come here first both find the same answer. */
static _Atomic(const tt_kernels *) chosen;

const tt_kernels *tt_kernels_use(const char *isa)
{
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i]->isa, isa) == 0 && is_usable(tables[i])) {
            atomic_store_explicit(&chosen, tables[i], memory_order_release);
            return tables[i];
        }
    return NULL;
}

const tt_kernels *tt_kernels_get(void)
{
    const tt_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (table != NULL)
        return table;
    const char *wish = getenv("TENSORTAP_ISA");
    if (wish != NULL)
        table = tt_kernels_use(wish);
    for (size_t i = 0; table == NULL; i++)
        table = tt_kernels_use(tables[i]->isa); /* the last one is always usable */
    return table;
}

const char *tt_isa_name(void)
{
    return tt_kernels_get()->isa;
}
