/* two_ends.c -- a file in memory that is written from both ends at once.
 *
 * Exists because more than half of what it takes to write to a file in memory
 * (tmpfs) is the kernel's work to find a page for each 4 KB, and write() does it
 * with the file locked: a second writer would only wait.  A page fault does not lock
 * the file.  So a thread that has nothing better to do maps the file's last piece,
 * has the kernel find the pages, copies, and goes on with the piece before.  Each does
 * the checksum of its own pieces, while they are in the cache.
 *
 * Where memory is at its end, asking for the pages fails: the piece is given back,
 * and the writer meets the error in write(), as it would have alone.  Without asking,
 * the copy would meet a signal.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/two_ends.h"

#include "format/checksum.h"
#include "format/zip.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; a kernel without it says no */
#endif

enum { NOT_YET, OPEN, AT_WORK, OVER };
enum { PIECE = 256 << 10, WINDOW = 16 /* pieces */, NAP = 20000 /* ns */ };

static uint32_t front_of(uint64_t claims)
{
    return (uint32_t)claims;
}

static uint32_t back_of(uint64_t claims)
{
    return (uint32_t)(claims >> 32);
}

static uint64_t claims_of(uint32_t front, uint32_t back)
{
    return (uint64_t)back << 32 | front;
}

void tt_ends_open(tt_ends *ends, const tt_ends_content *about)
{
    size_t size = about->head + about->bytes, pieces = (size + PIECE - 1) / PIECE;
    ends->about = *about;
    atomic_store_explicit(&ends->claims, claims_of(0, (uint32_t)pieces), memory_order_relaxed);
    /* There are no pages behind the end of a file.  Without a helper it is as good. */
    bool is_open = pieces <= UINT32_MAX && about->head < PIECE && ftruncate(about->fd, (off_t)size) == 0;
    atomic_store_explicit(&ends->state, is_open ? OPEN : OVER, memory_order_release);
}

/* The elements in a piece: n bytes from index at on. */
static void find_elements(const tt_ends_content *about, uint32_t piece, size_t *at, size_t *n)
{
    size_t start = (size_t)piece * PIECE, end = start + PIECE - about->head;
    *at = piece > 0 ? start - about->head : 0;
    *n = (end < about->bytes ? end : about->bytes) - *at;
}

static bool take_front(tt_ends *ends, uint32_t *piece)
{
    uint64_t claims = atomic_load_explicit(&ends->claims, memory_order_relaxed);
    do {
        *piece = front_of(claims);
        if (*piece == back_of(claims))
            return false;
    } while (!atomic_compare_exchange_weak(&ends->claims, &claims, claims + 1));
    return true;
}

/* The first piece, with the head, is the writer's in any case. */
static bool take_back(tt_ends *ends, uint32_t *piece)
{
    uint64_t claims = atomic_load_explicit(&ends->claims, memory_order_relaxed);
    do {
        *piece = back_of(claims) - 1;
        if (front_of(claims) > *piece || *piece == 0)
            return false;
    } while (!atomic_compare_exchange_weak(&ends->claims, &claims, claims_of(front_of(claims), *piece)));
    return true;
}

static void wait_for_helper(tt_ends *ends)
{
    int open = OPEN;
    if (atomic_compare_exchange_strong(&ends->state, &open, OVER)) /* from now on there is none */
        return;
    while (atomic_load_explicit(&ends->state, memory_order_acquire) == AT_WORK)
        (void)nanosleep(&(struct timespec){ .tv_nsec = NAP }, NULL);
}

bool tt_ends_claim(tt_ends *ends, size_t *at, size_t *n)
{
    uint32_t piece;
    if (!take_front(ends, &piece)) {
        wait_for_helper(ends);
        if (!take_front(ends, &piece)) /* else it gave one back */
            return false;
    }
    find_elements(&ends->about, piece, at, n);
    return true;
}

void tt_ends_close(tt_ends *ends)
{
    uint32_t piece;
    if (atomic_load_explicit(&ends->state, memory_order_relaxed) == NOT_YET)
        return;
    while (take_front(ends, &piece)) /* nothing is left to take */
        ;
    wait_for_helper(ends);
}

bool tt_ends_is_open(const tt_ends *ends)
{
    return atomic_load_explicit(&ends->state, memory_order_relaxed) == OPEN;
}

bool tt_ends_is_begun(const tt_ends *ends)
{
    return atomic_load_explicit(&ends->state, memory_order_relaxed) != NOT_YET;
}

/* Pages of the file, several pieces of them: to map and unmap stops the other threads for a
 * moment, but what is mapped counts as memory of the process. */
typedef struct window {
    char *pages; /* NULL: none */
    uint32_t first;
    size_t bytes;
} window;

static void unmap(window *w)
{
    if (w->pages != NULL)
        (void)munmap(w->pages, w->bytes);
    w->pages = NULL;
}

/* Where the piece lies; NULL: it cannot be had.  Pieces come from the last to the first. */
static char *map_piece(const tt_ends_content *about, uint32_t piece, window *w)
{
    if (w->pages == NULL || piece < w->first) {
        unmap(w);
        w->first = piece >= WINDOW ? piece - WINDOW + 1 : 0;
        size_t start = (size_t)w->first * PIECE, end = (size_t)piece * PIECE + PIECE,
               size = about->head + about->bytes;
        w->bytes = (end < size ? end : size) - start;
        w->pages = mmap(NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, about->fd, (off_t)start);
        if (w->pages == MAP_FAILED)
            w->pages = NULL;
    }
    return w->pages != NULL ? w->pages + (size_t)(piece - w->first) * PIECE : NULL;
}

static bool write_piece(tt_ends *ends, uint32_t piece, window *w)
{
    const tt_ends_content *about = &ends->about;
    size_t at, n;
    find_elements(about, piece, &at, &n);
    char *pages = map_piece(about, piece, w);
    if (pages == NULL || madvise(pages, n, MADV_POPULATE_WRITE) < 0)
        return false;
    tt_checksum_wait_filled(about->filled, at + n);
    memcpy(pages, about->data + at, n);
    if (about->has_sum)
        ends->crc = tt_checksum_join(tt_crc32(0, about->data + at, n), ends->crc, about->bytes - at - n);
    return true;
}

void tt_ends_help(tt_ends *ends)
{
    int open = OPEN;
    uint32_t piece;
    window w = { 0 };
    if (!atomic_compare_exchange_strong(&ends->state, &open, AT_WORK))
        return;
    while (take_back(ends, &piece)) {
        if (write_piece(ends, piece, &w))
            continue;
        (void)atomic_fetch_add(&ends->claims, claims_of(0, 1)); /* given back */
        break;
    }
    atomic_store_explicit(&ends->state, OVER, memory_order_release);
    unmap(&w);
}
