/* fuzz_run.c -- any bytes as a run file: open it, read everything, repair it.
 *
 * So that mutations reach what lies behind the checksums, every 64-byte header
 * that starts with the magic is sealed again, with the body it claims.
 * SPDX-License-Identifier: Apache-2.0 */
#include "arrow/abi.h"
#include "fuzz.h"
#include "store/run.h"

#include "base/wire.h"
#include "store/block.h"
#include "tensortap_tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Makes the checksums of every block right. */
static void seal(unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at + TT_BLOCK_HEADER <= size;) {
        uint64_t length = tt_get_u64(bytes + at + 8);
        uint32_t body = tt_get_u32(bytes + at + 16);
        if (memcmp(bytes + at, "TAP\xb1", 4) != 0 || length < TT_BLOCK_HEADER || length > size - at ||
            body > length - TT_BLOCK_HEADER) {
            at += TT_BLOCK_ALIGN;
            continue;
        }
        tt_block_head head = {
            .kind = (tt_block_kind)bytes[at + 5],
            .body = body,
            .id = tt_get_u32(bytes + at + 20),
            .length = (int64_t)length,
            .sequence = tt_get_u64(bytes + at + 24),
            .first_step = (int64_t)tt_get_u64(bytes + at + 32),
            .last_step = (int64_t)tt_get_u64(bytes + at + 40),
        };
        tt_block_seal(&head, (int64_t)at, bytes + at + TT_BLOCK_HEADER, bytes + at);
        at += length / TT_BLOCK_ALIGN * TT_BLOCK_ALIGN;
    }
}

static void read_all(tt_run *run)
{
    tt_check about;
    size_t n;
    static int64_t steps[1 << 12];
    static double values[1 << 12];
    static char value_bytes[1 << 16];
    for (int32_t site = 0; site < tt_run_site_count(run) && site < 32; site++) {
        for (int field = 0; field < TT_FIELD_COUNT_; field++)
            (void)tt_run_series(run, 0, site, (tt_field)field, steps, values, 1 << 12, &n, NULL);
        for (int64_t i = -3; i < 40; i++) {
            tt_point point;
            tt_value value;
            tt_hist_bin bins[16];
            tt_sample *sample;
            tt_dtype dtype;
            if (tt_run_point(run, 0, site, i, &point, NULL) < 0)
                continue;
            (void)tt_run_hist(run, 0, site, i, bins, 16, &n, NULL);
            if (tt_run_sample(run, 0, site, i, &sample, &dtype, NULL) == TT_OK)
                tt_sample_free(sample);
            if (tt_run_value_find(run, 0, point.value_at, &value, NULL) == TT_OK &&
                value.bytes <= (int64_t)sizeof value_bytes)
                (void)tt_run_value_read(run, &value, value_bytes, NULL);
        }
        int64_t index;
        (void)tt_run_first_nonfinite(run, 0, site, &index, NULL);
        (void)tt_run_seek(run, 0, site, 3, -1, 0, &index, NULL);
    }
    (void)tt_run_steps(run, steps, 1 << 12, &n, NULL);
    for (int32_t i = 0; tt_run_info_key(run, 0, i) != NULL; i++)
        (void)strlen(tt_run_info_value(run, 0, i));
    (void)tt_run_check(run, 0, &about, NULL);
    (void)tt_run_refresh(run, NULL);
}

/* What the views make of it. */
static void view_all(tt_run *run)
{
    tt_run_tree *tree;
    tt_nonfinite found;
    tt_feed feeds[8];
    tt_diff *diff;
    size_t n;
    const tt_style style = { .columns = 80 };
    for (int unfolds = 0; unfolds < 2; unfolds++)
        if (tt_run_tree_create(run, &(tt_look){ .rank = -1 }, NULL, unfolds == 1, &tree, NULL) == TT_OK) {
            for (size_t i = 0; i < tree->count && i < 64; i++) {
                const tt_tree_row *row = &tree->rows[i];
                tt_buf text = { 0 };
                MUST(row->depth >= 0 && row->site < tt_run_site_count(run));
                (void)tt_text_append(row->label, &style, &text);
                MUST(text.len == 0 || strchr(text.data, '\x1b') == NULL);
                if (row->site >= 0)
                    (void)tt_trend_append(run, row->file, row->site, TT_FIELD_RMS, row->phases, 16,
                                          &style, &text, NULL, NULL);
                tt_buf_free(&text);
            }
            tt_run_tree_free(tree);
        }
    if (tt_run_nonfinite(run, "x*", &found, NULL) == TT_OK && found.site >= 0)
        (void)tt_run_feeds(run, &found, feeds, 8, &n, NULL);
    tt_findings *findings;
    if (tt_health(run, &(tt_health_options){ .baseline = run }, &findings, NULL) == TT_OK) {
        tt_buf text = { 0 };
        MUST(findings->count == 0); /* whatever is wrong, the baseline has it too */
        MUST(tt_findings_write(findings, &text) == TT_OK);
        tt_buf_free(&text);
        tt_findings_free(findings);
    }
    if (tt_health(run, NULL, &findings, NULL) == TT_OK) {
        for (size_t i = 0; i < findings->count; i++)
            MUST(strlen(findings->items[i].sentence) > 0);
        tt_findings_free(findings);
    }
    tt_diff_options all = { .first_step = INT64_MIN, .last_step = INT64_MAX };
    if (tt_diff_compute(run, run, &all, &diff, NULL) == TT_OK) {
        MUST(diff->verdict == TT_DIFF_SAME);
        tt_diff_free(diff);
    }
}

/* What other engines read of it. */
static void stream_all(const char *path)
{
    const char *about;
    for (size_t i = 0; tt_arrow_table(i, &about) != NULL; i++) {
        tt_arrow *arrow;
        struct ArrowArrayStream *stream;
        struct ArrowArray batch;
        const tt_arrow_options options = { .table = tt_arrow_table(i, &about),
                                           .paths = &path,
                                           .path_count = 1,
                                           .first_step = 1,
                                           .last_step = INT64_MAX,
                                           .is_partial = true };
        MUST(tt_arrow_create(&options, &arrow, NULL) == TT_OK);
        MUST(tt_arrow_stream_new(arrow, &stream, NULL) == TT_OK);
        for (int n = 0; n < 64 && stream->get_next(stream, &batch) == 0 && batch.release != NULL; n++) {
            MUST(batch.length > 0);
            for (int64_t c = 0; c < batch.n_children; c++)
                MUST(batch.children[c]->length == batch.length);
            batch.release(&batch);
        }
        tt_arrow_stream_free(stream);
        tt_arrow_free(arrow);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 1 << 18)
        return 0;
    char path[64];
    int fd = memfd_create("fuzz", 0);
    unsigned char *bytes = malloc(size);
    if (fd < 0 || bytes == NULL)
        goto out;
    memcpy(bytes, data + 1, size - 1);
    if (data[0] % 4 != 0) /* one in four keeps its damage */
        seal(bytes, size - 1);
    if (write(fd, bytes, size - 1) != (ssize_t)size - 1)
        goto out;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tt_run *run;
    if (tt_run_open(path, &run, NULL) == TT_OK) {
        read_all(run);
        view_all(run);
        tt_run_close(run);
        stream_all(path);
    }
out:
    free(bytes);
    if (fd >= 0)
        (void)close(fd);
    return 0;
}
