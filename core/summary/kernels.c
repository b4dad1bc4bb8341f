/* kernels.c -- picks the inner loops for this machine, once.
 *
 * Exists so that every summary is written without asking what the machine can
 * do.  TENSORTAP_ISA names a set by hand; one that the machine does not have
 * falls back to the best it has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "summary/kernels.h"

#include "base/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_usable(const tt_kernels *table)
{
    return strcmp(table->isa, "avx2") != 0 || tt_cpu_has_avx2();
}

const tt_kernels *tt_kernels_named(const char *isa)
{
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i]->isa, isa) == 0 && is_usable(tables[i]))
            return tables[i];
    return NULL;
}

/* Two threads that come here first both find the same answer. */
static _Atomic(const tt_kernels *) chosen;

const tt_kernels *tt_kernels_get(void)
{
    const tt_kernels *table = atomic_load_explicit(&chosen, memory_order_acquire);
    if (table != NULL)
        return table;
    const char *wish = getenv("TENSORTAP_ISA");
    if (wish != NULL)
        table = tt_kernels_named(wish);
    for (size_t i = 0; table == NULL; i++)
        if (i + 1 == TABLES || is_usable(tables[i]))
            table = tables[i];
    atomic_store_explicit(&chosen, table, memory_order_release);
    return table;
}

const char *tt_isa_name(void)
{
    return tt_kernels_get()->isa;
}
