/* float_mode.h -- arithmetic as the standard has it, whatever the thread has chosen.
 *
 * Exists because torch.set_flush_denormal(True) makes a thread see denormals as
 * zero, and a number must not depend on who asks for it.  Rounding and traps are
 * as usual too.  Looking costs some nanoseconds; setting happens only if needed.
 * The compiler knows nothing of modes and may move arithmetic over begin and end;
 * memory it leaves in place, so what is computed between them must come from memory
 * and go there, or through tt_float_mode_keep.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_BASE_FLOAT_MODE_H
#define TT_BASE_FLOAT_MODE_H

#include <stdint.h>

#if defined(__x86_64__)

enum { TT_FLOAT_MODE_USUAL = 0x1f80, TT_FLOAT_MODE_FLAGS = 0x3f }; /* flags: what has happened so far */

/* Returns what tt_float_mode_end gives back. */
static inline uint64_t tt_float_mode_begin(void)
{
    uint32_t mode = __builtin_ia32_stmxcsr();
    if ((mode & ~(uint32_t)TT_FLOAT_MODE_FLAGS) != TT_FLOAT_MODE_USUAL)
        __builtin_ia32_ldmxcsr(TT_FLOAT_MODE_USUAL);
    __asm__ volatile("" ::: "memory");
    return mode;
}

static inline void tt_float_mode_end(uint64_t mode)
{
    __asm__ volatile("" ::: "memory");
    if (((uint32_t)mode & ~(uint32_t)TT_FLOAT_MODE_FLAGS) != TT_FLOAT_MODE_USUAL)
        __builtin_ia32_ldmxcsr((uint32_t)mode);
}

#elif defined(__aarch64__)

static inline uint64_t tt_float_mode_begin(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode)::"memory");
    if (mode != 0)
        __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)0) : "memory");
    return mode;
}

static inline void tt_float_mode_end(uint64_t mode)
{
    if (mode != 0)
        __asm__ volatile("msr fpcr, %0" ::"r"(mode) : "memory");
}

#else

static inline uint64_t tt_float_mode_begin(void)
{
    return 0;
}

static inline void tt_float_mode_end(uint64_t mode)
{
    (void)mode;
}

#endif

/* A number that is computed by here. */
static inline double tt_float_mode_keep(double x)
{
    __asm__ volatile("" : "+m"(x)::"memory");
    return x;
}

#endif
