/* checksum.c -- the CRC-32 of a file's elements, by one thread or two.
 *
 * Exists because a checksum takes a fifth of the time of writing to memory, and
 * whoever waits for a file might as well do that part of the work.  Bytes are
 * claimed by one atomic number: the writer goes on from the front, piece by
 * piece, until a helper claims all that is left.  Nobody waits for anybody but
 * the writer, at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "format/checksum.h"

#include "format/zip.h"

#include <time.h>

enum { NO_HELPER, AT_WORK, DONE };
enum { PIECE = 256 << 10, NAP = 100000 /* ns */ };
enum { SPIN = 30000 /* ns: a piece takes about as long */ };

#define CLOSED ((uint64_t)1 << 63)
#define POLYNOMIAL 0xedb88320u /* of CRC-32, lowest power in the top bit */

/* Looks at a clock at each turn of a loop that waits, and rests if it takes long:
 * a thread that spins, or yields, can keep the one it waits for from the core. */
typedef struct patience {
    int64_t start; /* ns; 0: the first turn */
} patience;

static void wait_more(patience *p)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    int64_t now = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
    if (p->start == 0)
        p->start = now;
    else if (now - p->start > SPIN)
        (void)nanosleep(&(struct timespec){ .tv_nsec = NAP }, NULL);
}

void tt_checksum_wait_filled(const _Atomic size_t *filled, size_t bytes)
{
    patience p = { 0 };
    while (filled != NULL && atomic_load_explicit(filled, memory_order_acquire) < bytes)
        wait_more(&p);
}

/* Makes the next n bytes the writer's. */
static bool claim(tt_checksum *sum, size_t n)
{
    uint64_t front = atomic_load_explicit(&sum->front, memory_order_relaxed);
    /* Fails only if a helper has closed it meanwhile. */
    return !(front & CLOSED) && atomic_compare_exchange_strong(&sum->front, &front, front + n);
}

void tt_checksum_add(tt_checksum *sum, const void *bytes, size_t n)
{
    if (claim(sum, n))
        sum->front_crc = tt_crc32(sum->front_crc, bytes, n);
}

void tt_checksum_add_crc(tt_checksum *sum, uint32_t crc, size_t n)
{
    if (claim(sum, n))
        sum->front_crc = tt_checksum_join(sum->front_crc, crc, n);
}

uint32_t tt_checksum_end(tt_checksum *sum)
{
    uint64_t front = atomic_fetch_or(&sum->front, CLOSED);
    if (!(front & CLOSED))
        return sum->front_crc;
    int state;
    patience p = { 0 };
    while ((state = atomic_load_explicit(&sum->helper, memory_order_acquire)) == AT_WORK)
        wait_more(&p);
    return state == DONE ? tt_checksum_join(sum->front_crc, sum->rest_crc, sum->rest) : sum->front_crc;
}

bool tt_checksum_is_alone(const tt_checksum *sum)
{
    return !(atomic_load_explicit(&sum->front, memory_order_relaxed) & CLOSED);
}

void tt_checksum_help(tt_checksum *sum, const char *data, size_t bytes, const _Atomic size_t *filled)
{
    int none = NO_HELPER;
    if (!atomic_compare_exchange_strong(&sum->helper, &none, AT_WORK))
        return;
    uint64_t from = atomic_fetch_or(&sum->front, CLOSED);
    if (from & CLOSED) { /* the writer was quicker */
        atomic_store_explicit(&sum->helper, NO_HELPER, memory_order_release);
        return;
    }
    uint32_t crc = 0;
    for (uint64_t at = from; at < bytes;) {
        size_t n = bytes - at < PIECE ? bytes - at : PIECE;
        tt_checksum_wait_filled(filled, at + n);
        crc = tt_crc32(crc, data + at, n);
        at += n;
    }
    sum->rest_crc = crc;
    sum->rest = bytes - from;
    atomic_store_explicit(&sum->helper, DONE, memory_order_release);
}

/* Of two polynomials over GF(2), modulo CRC-32's. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t power = (uint32_t)1 << 31; power != 0; power >>= 1) {
        if (a & power)
            product ^= b;
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* The first CRC moves up by the second's bits: it is multiplied by x to their number. */
uint32_t tt_checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes)
{
    uint32_t shift = (uint32_t)1 << 23; /* x^8 */
    for (uint64_t n = second_bytes; n != 0; n >>= 1) {
        if (n & 1)
            first = multiply(shift, first);
        shift = multiply(shift, shift);
    }
    return first ^ second;
}
