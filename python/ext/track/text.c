/* text.c -- a line of the log while it is put together.
 *
 * Exists because a log line is a dozen small pieces, and the core's buffers are
 * not part of its interface.  Running out of memory is noted once, at the end.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap_tools.h"
#include "track/engine.h"

#include <stdlib.h>

/* Guides beyond this depth leave no room for the text: the rest is a number. */
enum { DEEPEST = 10 };

void track_text_put_slowly(track_text *text, const char *bytes, size_t len)
{
    if (text->has_failed)
        return;
    size_t cap = (text->len + len + 1) * 2 + 256;
    char *data = PyMem_Realloc(text->is_lent ? NULL : text->data, cap);
    if (data == NULL) {
        text->has_failed = true;
        text->cap = 0;
        return;
    }
    if (text->is_lent)
        memcpy(data, text->data, text->len);
    text->is_lent = false;
    text->data = data;
    text->cap = cap;
    track_text_put_bytes(text, bytes, len);
}

void track_text_put_int(track_text *text, long long number)
{
    char digits[24];
    unsigned long long left = number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + left % 10);
    while ((left /= 10) != 0);
    if (number < 0)
        digits[--at] = '-';
    track_text_put_bytes(text, digits + at, sizeof digits - at);
}

void track_text_put_number(track_text *text, double number)
{
    char digits[TT_NUMBER_TEXT];
    track_text_put_bytes(text, digits, tt_number_short(number, digits));
}

void track_text_put_str(track_text *text, PyObject *str)
{
    Py_ssize_t len = 0;
    const char *bytes = str != NULL && PyUnicode_Check(str) ? PyUnicode_AsUTF8AndSize(str, &len) : NULL;
    if (bytes != NULL) {
        track_text_put_bytes(text, bytes, (size_t)len);
        return;
    }
    PyErr_Clear(); /* a lone surrogate: as the core would show it */
    PyObject *safe = str != NULL && PyUnicode_Check(str)
                         ? PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace")
                         : NULL; /* owned */
    if (safe != NULL)
        track_text_put_bytes(text, PyBytes_AS_STRING(safe), (size_t)PyBytes_GET_SIZE(safe));
    PyErr_Clear();
    Py_XDECREF(safe);
}

void track_text_put_ink(track_text *text, track_ink ink, bool is_colored)
{
    static const char *const codes[] = {
        [INK_PLAIN] = "\x1b[0m",   [INK_FAINT] = "\x1b[2m",    [INK_NAME] = "\x1b[36m",
        [INK_CHANGE] = "\x1b[33m", [INK_ALARM] = "\x1b[1;31m",
    };
    if (is_colored)
        track_text_put(text, codes[ink]);
}

void track_text_free(track_text *text)
{
    if (!text->is_lent)
        PyMem_Free(text->data);
    *text = (track_text){ 0 };
}

/* The interface of the core's buffers has no append. */
static tt_status reserve(tt_buf *out, size_t more)
{
    if (out->cap >= out->len + more)
        return TT_OK;
    size_t cap = out->len * 2 + more;
    char *data = realloc(out->data, cap);
    if (data == NULL)
        return TT_ENOMEM;
    out->data = data;
    out->cap = cap;
    return TT_OK;
}

tt_status track_text_branch(tt_buf *out, long depth, tt_branch branch, const track_text *text,
                            bool is_colored)
{
    tt_style style = { .is_colored = is_colored };
    track_text deep = { 0 };
    const char *bytes = text->len > 0 ? text->data : "";
    if (text->has_failed)
        return TT_ENOMEM;
    if (depth > DEEPEST) {
        track_text_put(&deep, "+");
        track_text_put_int(&deep, depth - DEEPEST);
        track_text_put(&deep, " ");
        track_text_put(&deep, bytes);
        bytes = deep.data != NULL ? deep.data : bytes;
        depth = DEEPEST;
    }
    tt_status st = reserve(out, TEXT_ROOM);
    if (st == TT_OK)
        st = tt_tree_line((int32_t)(depth < 0 ? 0 : depth), branch, bytes, &style, out);
    if (st == TT_OK)
        st = reserve(out, 2);
    if (st == TT_OK)
        memcpy(out->data + out->len++, "\n", 2);
    track_text_free(&deep);
    return st;
}
