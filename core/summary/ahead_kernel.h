/* ahead_kernel.h -- asks memory for what a loop is about to read.
 *
 * For *_kernel.c only.  A loop that computes much for each element fills the
 * processor's window before many loads are in it, so it must ask early by itself:
 *   line   for every cache line, far enough ahead that it has come by then;
 *   page   some times in every page, for the page after it.  Looking up where a page
 *          lies takes as long as reading it, and a request for a line waits for that.
 *          Its last line is asked for: its first would keep the processor from seeing
 *          that a new page is being read from its start, and from reading on by itself.
 * Either alone helps, both help more than their sum; in huge pages nearly all is line's.
 * What comes of it: bench_stats_f32.py.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SUMMARY_AHEAD_KERNEL_H
#define TT_SUMMARY_AHEAD_KERNEL_H

#include <stdint.h>

enum { TT_AHEAD_LINE = 2560, TT_AHEAD_PAGE = 4096, TT_AHEAD_LAST_LINE = 4096 - 64 };

static inline void tt_ahead_line(const void *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + TT_AHEAD_LINE));
}

static inline void tt_ahead_page(const void *at)
{
    __builtin_prefetch((const void *)(((uintptr_t)at + TT_AHEAD_PAGE) | TT_AHEAD_LAST_LINE));
}

#endif
