/* cpu.c -- which instruction sets this machine has.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>

/* __builtin_cpu_supports knows whether the system saves the registers, but
 * clang 14 has no word for F16C there. */
bool tt_cpu_has_avx2(void)
{
    unsigned a, b, c = 0, d;
    if (!__builtin_cpu_supports("avx2") || __get_cpuid(1, &a, &b, &c, &d) == 0)
        return false;
    return (c & bit_F16C) != 0;
}
#else
bool tt_cpu_has_avx2(void)
{
    return false;
}
#endif
