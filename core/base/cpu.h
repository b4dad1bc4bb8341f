/* cpu.h -- which instruction sets this machine has.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_CPU_H
#define TT_BASE_CPU_H

#include <stdbool.h>

/* AVX2 with F16C, and an operating system that saves the registers. */
bool tt_cpu_has_avx2(void);

#endif
