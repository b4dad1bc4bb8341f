/* track_text.c -- a line of the log while it is put together.
 *
 * Exists because a log line is a dozen small pieces, and the core's buffers are
 * not part of its interface.  Running out of memory is noted once, at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "track.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Guides beyond this depth leave no room for the text: the rest is a number. */
enum { DEEPEST = 10 };

void text_put_bytes(track_text *text, const char *bytes, size_t len)
{
    if (text->has_failed)
        return;
    if (text->len + len + 1 > text->cap) {
        size_t cap = (text->len + len + 1) * 2 + 256;
        char *data = PyMem_Realloc(text->data, cap);
        if (data == NULL) {
            text->has_failed = true;
            return;
        }
        text->data = data;
        text->cap = cap;
    }
    memcpy(text->data + text->len, bytes, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void text_put(track_text *text, const char *bytes)
{
    text_put_bytes(text, bytes, strlen(bytes));
}

void text_put_int(track_text *text, long long number)
{
    char digits[24];
    unsigned long long left = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0)
        digits[--at] = '-';
    text_put_bytes(text, digits + at, sizeof digits - at);
}

void text_put_number(track_text *text, double number)
{
    char digits[TT_NUMBER_TEXT];
    text_put_bytes(text, digits, tt_number_short(number, digits));
}

void text_put_str(track_text *text, PyObject *str)
{
    Py_ssize_t len = 0;
    const char *bytes = str != NULL && PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &len) : NULL;
    if (bytes != NULL) {
        text_put_bytes(text, bytes, (size_t)len);
        return;
    }
    PyErr_Clear(); /* a lone surrogate: as the core would show it */
    PyObject *safe = str != NULL && PyUnicode_Check(str)
                         ? PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace") : NULL; /* owned */
    if (safe != NULL)
        text_put_bytes(text, PyBytes_AS_STRING(safe), (size_t)PyBytes_GET_SIZE(safe));
    PyErr_Clear();
    Py_XDECREF(safe);
}

void text_put_ink(track_text *text, track_ink ink, bool is_colored)
{
    static const char *const codes[] = {
        [INK_PLAIN] = "\x1b[0m", [INK_FAINT] = "\x1b[2m", [INK_NAME] = "\x1b[36m",
        [INK_CHANGE] = "\x1b[33m", [INK_ALARM] = "\x1b[1;31m",
    };
    if (is_colored)
        text_put(text, codes[ink]);
}

void text_free(track_text *text)
{
    PyMem_Free(text->data);
    *text = (track_text){ 0 };
}

/* A newline; the interface of the core's buffers has no append. */
static tt_status end_line(tt_buf *out)
{
    if (out->cap < out->len + 2) {
        char *data = realloc(out->data, out->len * 2 + 2);
        if (data == NULL)
            return TT_ENOMEM;
        out->data = data;
        out->cap = out->len * 2 + 2;
    }
    out->data[out->len++] = '\n';
    out->data[out->len] = '\0';
    return TT_OK;
}

tt_status text_branch(tt_buf *out, long depth, tt_branch branch, const track_text *text, bool is_colored)
{
    tt_style style = { .is_colored = is_colored };
    track_text deep = { 0 };
    const char *bytes = text->data != NULL ? text->data : "";
    if (text->has_failed)
        return TT_ENOMEM;
    if (depth > DEEPEST) {
        text_put(&deep, "+");
        text_put_int(&deep, depth - DEEPEST);
        text_put(&deep, " ");
        text_put(&deep, bytes);
        bytes = deep.data != NULL ? deep.data : bytes;
        depth = DEEPEST;
    }
    tt_status st = out->len > 0 ? end_line(out) : TT_OK;
    if (st == TT_OK)
        st = tt_tree_line((int32_t)(depth < 0 ? 0 : depth), branch, bytes, &style, out);
    text_free(&deep);
    return st;
}

PyObject *text_result(tt_status st, tt_buf *out)
{
    PyObject *text = st < 0 ? raise_status(st, NULL)
                            : PyUnicode_DecodeUTF8(out->data != NULL ? out->data : "", (Py_ssize_t)out->len, "replace");
    tt_buf_free(out);
    return text;
}

/* ---- the log file -------------------------------------------------------------- */

/* "2026-01-31 12:00:00,123 - INFO - ", as the logging package writes it. */
static size_t put_stamp(char out[64])
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    size_t len = strftime(out, 64, "%Y-%m-%d %H:%M:%S", &local);
    return len + (size_t)snprintf(out + len, 64 - len, ",%03d - INFO - ", (int)(now.tv_nsec / 1000000));
}

/* All of it, whatever the system takes at a time; 0 or errno. */
static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Where the log goes by the environment: (TENSORTAP_LOG_DIR, LTAG), bytes or None.
 * os.environ has a price of its own, and this is asked at each line. */
CORE_FUNCTION(core_track_place)
{
    const option none[] = { { 0 } };
    (void)module;
    if (read_arguments("track_place", 0, none, args, nargs, kwnames) < 0)
        return NULL;
    return Py_BuildValue("(yy)", getenv("TENSORTAP_LOG_DIR"), getenv("LTAG"));
}

/* track_write(fd, text) -> 0 or errno: each line with the time before it, in one write */
CORE_FUNCTION(core_track_write)
{
    const option none[] = { { 0 } };
    track_text log = { 0 }, all = { 0 };
    char stamp[64];
    int failed;
    (void)module;
    if (read_arguments("track_write", 2, none, args, nargs, kwnames) < 0)
        return NULL;
    int fd = (int)PyLong_AsLong(args[0]);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    size_t head = put_stamp(stamp);
    text_put_str(&all, args[1]);
    for (const char *at = all.data, *next; at != NULL; at = next) {
        const char *end = memchr(at, '\n', (size_t)(all.data + all.len - at));
        next = end != NULL ? end + 1 : NULL;
        text_put_bytes(&log, stamp, head);
        text_put_bytes(&log, at, (size_t)((end != NULL ? end : all.data + all.len) - at));
        text_put_bytes(&log, "\n", 1);
    }
    Py_BEGIN_ALLOW_THREADS
    failed = log.has_failed || all.has_failed ? ENOMEM : write_all(fd, log.data, log.len);
    Py_END_ALLOW_THREADS
    text_free(&log);
    text_free(&all);
    return PyLong_FromLong(failed);
}
