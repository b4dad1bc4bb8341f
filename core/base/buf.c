/* buf.c -- memory that grows: arrays, bytes and text, and an arena for things that die together.
 *
 * Exists so that nobody has to count elements or bytes in advance, nor free them one by
 * one.  A failed call leaves the contents as they were.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/wire.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tt_status tt_grow(void *array, size_t *cap, size_t need, size_t size)
{
    enum { LEAST = 8 };
    if (need <= *cap)
        return TT_OK;
    size_t more = *cap + *cap / 2, wanted = need > more ? need : more;
    wanted = wanted > LEAST ? wanted : LEAST;
    void *memory;
    memcpy(&memory, array, sizeof memory);
    memory = wanted < SIZE_MAX / 4 / size ? realloc(memory, wanted * size) : NULL;
    if (memory == NULL)
        return TT_ENOMEM;
    memcpy(array, &memory, sizeof memory);
    *cap = wanted;
    return TT_OK;
}

void tt_buf_free(tt_buf *buf)
{
    if (buf == NULL)
        return;
    free(buf->data);
    *buf = (tt_buf){ 0 };
}

void tt_buf_clear(tt_buf *buf)
{
    tt_buf_cut(buf, 0);
    buf->st = TT_OK;
}

void tt_buf_cut(tt_buf *buf, size_t len)
{
    assert(len <= buf->len);
    buf->len = len;
    if (buf->data != NULL)
        buf->data[len] = '\0';
}

tt_status tt_buf_reserve(tt_buf *buf, size_t more)
{
    if (buf->st < 0)
        return buf->st;
    if (more > SIZE_MAX / 4 || buf->len > SIZE_MAX / 4)
        return buf->st = TT_ENOMEM;
    enum { LEAST = 1000 }; /* bytes: most buffers are a few lines, and malloc keeps such sizes at hand */
    size_t need = buf->len + more + 1;
    if (need <= buf->cap)
        return TT_OK;
    buf->st = tt_grow(&buf->data, &buf->cap, need > LEAST ? need : LEAST, 1);
    if (buf->st == TT_OK)
        buf->data[buf->len] = '\0';
    return buf->st;
}

tt_status tt_buf_append(tt_buf *buf, const void *bytes, size_t n)
{
    bool fits = buf->st >= 0 && n < buf->cap - buf->len; /* and a NUL: the usual case, without a call */
    if (!fits && tt_buf_reserve(buf, n) < 0)
        return buf->st;
    if (n > 0)
        memcpy(buf->data + buf->len, bytes, n);
    buf->len += n;
    buf->data[buf->len] = '\0';
    return TT_OK;
}

tt_status tt_buf_text(tt_buf *buf, const char *text)
{
    return tt_buf_append(buf, text, strlen(text));
}

tt_status tt_buf_int(tt_buf *buf, int64_t number)
{
    char digits[24], *at = digits + sizeof digits;
    uint64_t left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0)
        *--at = '-';
    return tt_buf_append(buf, at, (size_t)(digits + sizeof digits - at));
}

tt_status tt_buf_varint(tt_buf *buf, uint64_t number)
{
    unsigned char bytes[10];
    return tt_buf_append(buf, bytes, (size_t)(tt_put_varint(bytes, number) - bytes));
}

tt_status tt_buf_fixed(tt_buf *buf, uint64_t number, size_t bytes)
{
    unsigned char raw[16];
    for (size_t i = 0; i < bytes; i++, number >>= 8)
        raw[i] = (unsigned char)number;
    return tt_buf_append(buf, raw, bytes);
}

tt_status tt_buf_printf(tt_buf *buf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    tt_status st = TT_EINVAL;
    int n = vsnprintf(NULL, 0, format, args);
    if (n < 0)
        goto out;
    st = tt_buf_reserve(buf, (size_t)n);
    if (st < 0)
        goto out;
    (void)vsnprintf(buf->data + buf->len, (size_t)n + 1, format, again);
    buf->len += (size_t)n;
out:
    va_end(again);
    va_end(args);
    return st;
}

enum { CHUNK_BYTES = 4 * 1024, CHUNK_ALIGN = 16 };

struct tt_arena_chunk {
    tt_arena_chunk *older; /* owned */
    size_t cap;            /* bytes after the header */
};

static char *chunk_bytes(tt_arena_chunk *chunk)
{
    return (char *)chunk + sizeof *chunk;
}
_Static_assert(sizeof(tt_arena_chunk) % CHUNK_ALIGN == 0, "chunk bytes must stay aligned");

void *tt_arena_alloc(tt_arena *arena, size_t n)
{
    if (n > SIZE_MAX / 4)
        return NULL;
    tt_arena_chunk *chunk = arena->chunks;
    size_t at = (arena->used + CHUNK_ALIGN - 1) & ~(size_t)(CHUNK_ALIGN - 1);
    if (chunk == NULL || at > chunk->cap || n > chunk->cap - at) {
        size_t cap = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        chunk = malloc(sizeof *chunk + cap);
        if (chunk == NULL)
            return NULL;
        *chunk = (tt_arena_chunk){ .older = arena->chunks, .cap = cap };
        arena->chunks = chunk;
        at = 0;
    }
    arena->used = at + n;
    return chunk_bytes(chunk) + at;
}

char *tt_arena_text(tt_arena *arena, const char *text, size_t len)
{
    char *copy = len < SIZE_MAX ? tt_arena_alloc(arena, len + 1) : NULL;
    if (copy == NULL)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void tt_arena_free(tt_arena *arena)
{
    if (arena == NULL)
        return;
    for (tt_arena_chunk *chunk = arena->chunks, *older; chunk != NULL; chunk = older) {
        older = chunk->older;
        free(chunk);
    }
    *arena = (tt_arena){ 0 };
}
