/* test_damage.c -- a damaged run file gives an error or what could be saved.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/run.h"
#include "tensortap_tools.h"

#include "run_folder.h"
#include "store/block.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char *bytes;
static size_t size;
static char folder[300], path[320], fixed[340];

enum { SITES = 3, STEPS = 60 };

/* A small run with everything in it. */
static int make_run(void **state)
{
    (void)state;
    if (access("/dev/shm", W_OK) == 0) /* thousands of files are written */
        (void)setenv("TMPDIR", "/dev/shm", 0);
    (void)snprintf(folder, sizeof folder, "%s", run_folder_new());
    (void)snprintf(path, sizeof path, "%s/rank0.tap", folder);
    (void)snprintf(fixed, sizeof fixed, "%s/rank7.tap", folder);
    const char *info[] = { "host", "here", "argv", "train.py", NULL };
    tt_recorder *rec;
    assert_int_equal(tt_recorder_open(folder, &(tt_recorder_options){ .info = info }, &rec, NULL), 0);
    int32_t sites[SITES];
    float data[300];
    tt_tensor t;
    tt_tensor_describe(&t, data, TT_F32, 1, (int64_t[]){ 300 }, NULL, NULL);
    tt_hist *hist;
    tt_hist_create(&hist);
    for (int i = 0; i < 300; i++)
        data[i] = (float)i;
    tt_hist_add(hist, &t);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int32_t i = 0; i < SITES; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "site%d", (int)i);
            tt_recorder_site(rec, name, &sites[i], NULL);
            tt_stats s = stats_of(i, step);
            data[0] = (float)step;
            tt_recorder_add(rec, &(tt_event){ .site = sites[i],
                                              .step = step,
                                              .stats = &s,
                                              .tensor = &t,
                                              .hist = step % 9 ? NULL : hist,
                                              .has_value = i == 1 && step % 6 == 0 });
        }
        if (step % 20 == 7)
            tt_recorder_note(rec, step, "a note");
        if (step % 5 == 0) /* so seldom that nothing is merged at the end */
            tt_recorder_flush(rec, NULL);
    }
    assert_int_equal(tt_recorder_close(rec, 30, NULL), 0);
    tt_hist_free(hist);
    struct stat about;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &about) == 0);
    size = (size_t)about.st_size;
    bytes = malloc(size);
    assert_true(read(fd, bytes, size) == (ssize_t)size);
    close(fd);
    return 0;
}

static int drop_run(void **state)
{
    (void)state;
    free(bytes);
    run_folder_remove(folder);
    return 0;
}

static void write_file(const char *to, const char *from, size_t n)
{
    int fd = open(to, O_CREAT | O_TRUNC | O_WRONLY, 0666);
    assert_true(fd >= 0 && write(fd, from, n) == (ssize_t)n);
    close(fd);
}

/* Asks for everything; every number that comes must be the one recorded. */
static size_t read_everything(const char *from)
{
    tt_run *run;
    tt_error err;
    if (tt_run_open(from, &run, &err) < 0)
        return 0;
    size_t seen = 0;
    int64_t steps[STEPS * 2];
    double values[STEPS * 2];
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        size_t n = 0, count = tt_run_points(run, 0, site);
        assert_true(count <= STEPS);
        if (tt_run_series(run, 0, site, TT_FIELD_MEAN, steps, values, STEPS * 2, &n, &err) == TT_OK)
            for (size_t i = 0; i < n; i++)
                if (strncmp(name, "site", 4) == 0) {
                    assert_true(values[i] == stats_of(name[4] - '0', steps[i]).mean);
                    seen++;
                }
        for (size_t i = 0; i < count; i++) {
            tt_point p;
            tt_value v;
            tt_hist_bin bins[64];
            if (tt_run_point(run, 0, site, (int64_t)i, &p, &err) < 0)
                continue;
            (void)tt_run_hist(run, 0, site, (int64_t)i, bins, 64, &n, &err);
            if (p.value_at != 0 && tt_run_value_find(run, 0, p.value_at, &v, &err) == TT_OK) {
                float data[300];
                assert_int_equal(v.bytes, sizeof data);
                if (tt_run_value_read(run, &v, data, &err) == TT_OK)
                    assert_true(data[0] == (float)p.step && data[299] == 299);
            }
        }
        int64_t index;
        (void)tt_run_first_nonfinite(run, 0, site, &index, &err);
    }
    size_t n;
    (void)tt_run_steps(run, steps, STEPS * 2, &n, &err);
    tt_check about;
    (void)tt_run_check(run, 0, &about, &err);
    tt_run_close(run);
    return seen;
}

static void a_file_cut_anywhere_gives_what_is_before_the_cut(void **state)
{
    (void)state;
    size_t before = 0, whole = read_everything(path);
    assert_int_equal(whole, SITES * STEPS);
    for (size_t cut = 0; cut < size; cut += cut < 4096 ? 64 : 512) {
        write_file(fixed, bytes, cut);
        size_t seen = read_everything(fixed);
        assert_true(seen >= before && seen <= whole);
        before = seen;
        tt_run *run;
        tt_check about;
        if (tt_run_open(fixed, &run, NULL) == TT_OK) { /* torn is not damaged */
            assert_int_equal(tt_run_check(run, 0, &about, NULL), 0);
            assert_int_equal(about.damaged_bytes, 0);
            tt_run_close(run);
        }
    }
    assert_true(before > whole / 2);
}

/* Where the first or the last batch begins; *end is where it ends. */
static size_t find_batch(bool is_last, size_t *end)
{
    size_t found = 0;
    tt_block_head head;
    for (size_t at = 0; at < size; at += (size_t)head.length) {
        assert_true(tt_block_parse((const unsigned char *)bytes + at, (int64_t)at, &head));
        if (head.kind == TT_BLOCK_BATCH && (is_last || found == 0)) {
            found = at;
            *end = at + (size_t)head.length;
        }
    }
    return found;
}

/* A copy of the first n bytes in which the body of a block is nothing. */
static char *copy_without(size_t at, size_t end, size_t n)
{
    char *copy = malloc(n);
    memcpy(copy, bytes, n);
    memset(copy + at + TT_BLOCK_HEADER, 0, end - at - TT_BLOCK_HEADER);
    return copy;
}

static void a_last_block_that_is_still_on_its_way_is_read_when_it_has_come(void **state)
{
    (void)state;
    size_t end = 0, at = find_batch(true, &end);
    char *early = copy_without(at, end, end);
    write_file(fixed, early, end);
    free(early);
    tt_run *run;
    tt_run_file about;
    assert_int_equal(tt_run_open(fixed, &run, NULL), TT_OK);
    assert_int_equal(tt_run_file_get(run, 0, &about), TT_OK);
    assert_int_equal(about.damaged_bytes, 0);
    assert_true(about.points < SITES * STEPS);
    int fd = open(fixed, O_WRONLY);
    assert_true(fd >= 0 && write(fd, bytes, end) == (ssize_t)end);
    close(fd);
    assert_int_equal(tt_run_refresh(run, NULL), TT_OK);
    assert_int_equal(tt_run_file_get(run, 0, &about), TT_OK);
    assert_int_equal(about.damaged_bytes, 0);
    assert_int_equal(about.points, SITES * STEPS);
    tt_run_close(run);
}

static void a_flipped_bit_is_found_and_never_believed(void **state)
{
    (void)state;
    const char *rounds = getenv("TT_FLIPS");
    int flips = rounds != NULL ? atoi(rounds) : 10000;
    srand(7);
    for (int i = 0; i < flips; i++) {
        size_t at[4], count = 1 + (size_t)(i % 4); /* one to four at a time */
        for (size_t k = 0; k < count; k++) {
            at[k] = ((size_t)rand() << 16 ^ (size_t)rand()) % size;
            bytes[at[k]] ^= (char)(1 << i % 8);
        }
        write_file(fixed, bytes, size);
        (void)read_everything(fixed);
        for (size_t k = count; k-- > 0;)
            bytes[at[k]] ^= (char)(1 << i % 8);
    }
}

static void check_finds_every_flipped_bit_that_matters(void **state)
{
    (void)state;
    srand(9);
    int missed = 0;
    for (int i = 0; i < 300; i++) {
        size_t at = ((size_t)rand() << 16 ^ (size_t)rand()) % size;
        bytes[at] ^= 4;
        write_file(fixed, bytes, size);
        bytes[at] ^= 4;
        tt_run *run;
        tt_check about;
        if (tt_run_open(fixed, &run, NULL) < 0)
            continue;
        assert_int_equal(tt_run_check(run, 0, &about, NULL), 0);
        if (about.damaged_bytes == 0 && about.torn_bytes == 0) {
            missed++; /* only in padding, which says nothing */
            assert_int_equal(read_everything(fixed), SITES * STEPS);
        }
        tt_run_close(run);
    }
    assert_true(missed < 100);
}

/* Steps and lengths stand in the header only: no hash of a body covers them. */
static void check_finds_a_flipped_bit_in_any_byte_of_a_header(void **state)
{
    (void)state;
    int headers = 0;
    for (size_t at = 0; at < size; at += 64) {
        if (memcmp(bytes + at, "TAP\xb1", 4) != 0 || headers++ % 3 != 0) /* a third: it takes long */
            continue;
        for (size_t k = at; k < at + 64; k++) {
            bytes[k] ^= 1;
            write_file(fixed, bytes, size);
            bytes[k] ^= 1;
            tt_run *run;
            tt_check about;
            if (tt_run_open(fixed, &run, NULL) < 0) {
                assert_int_equal(at, 0);
                continue;
            }
            assert_int_equal(tt_run_check(run, 0, &about, NULL), 0);
            tt_run_close(run);
            if (about.damaged_bytes + about.torn_bytes == 0)
                fail_msg("byte %zu of the header at %zu", k - at, at);
        }
    }
    assert_true(headers > 20);
}

static void repair_keeps_what_is_whole(void **state)
{
    (void)state;
    srand(11);
    char clean[400];
    (void)snprintf(clean, sizeof clean, "%s/rank8.tap", folder);
    for (int i = 0; i < 100; i++) {
        size_t at = ((size_t)rand() << 16 ^ (size_t)rand()) % size;
        char kept[64];
        size_t n = size - at < 64 ? size - at : 64;
        memcpy(kept, bytes + at, n);
        memset(bytes + at, 0x5a, n);
        write_file(fixed, bytes, size);
        memcpy(bytes + at, kept, n);
        tt_run *run;
        tt_check about, after;
        tt_error err;
        if (tt_run_open(fixed, &run, NULL) < 0)
            continue;
        (void)unlink(clean);
        if (tt_run_repair(run, 0, clean, &about, &err) < 0)
            fail_msg("%s", err.text);
        tt_run_close(run);
        assert_int_equal(tt_run_open(clean, &run, NULL), 0);
        assert_int_equal(tt_run_check(run, 0, &after, NULL), 0);
        assert_int_equal(after.damaged_bytes, 0);
        assert_true(after.is_closed && after.torn_bytes == 0);
        assert_int_equal(after.points, about.points);
        tt_run_close(run);
        assert_true(read_everything(clean) >
                    SITES * STEPS / 2); /* merged and small chunks back each other */
    }
    (void)unlink(clean);
}

static void repair_knows_names_whose_block_is_damaged_from_the_footer(void **state)
{
    (void)state;
    size_t end = 0, at = find_batch(false, &end); /* the names are in the first */
    char *damaged = copy_without(at, end, size), clean[400];
    (void)snprintf(clean, sizeof clean, "%s/rank8.tap", folder);
    write_file(fixed, damaged, size);
    free(damaged);
    tt_run *run;
    tt_check about;
    assert_int_equal(tt_run_open(fixed, &run, NULL), TT_OK);
    assert_int_equal(tt_run_repair(run, 0, clean, &about, NULL), TT_OK);
    assert_int_equal(about.damaged_blocks, 1);
    tt_run_close(run);
    assert_int_equal(tt_run_open(clean, &run, NULL), TT_OK);
    for (int32_t i = 0; i < SITES; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "site%d", (int)i);
        assert_int_equal(tt_run_find(run, name), i);
    }
    tt_run_close(run);
    assert_true(read_everything(clean) > SITES * STEPS / 2);
    (void)unlink(clean);
}

static void files_of_anything_else_are_refused(void **state)
{
    (void)state;
    tt_run *run;
    tt_error err;
    char junk[5000];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (char)(i * 131);
    write_file(fixed, junk, sizeof junk);
    assert_int_equal(tt_run_open(fixed, &run, &err), TT_EFORMAT);
    assert_int_equal(tt_run_open("/dev/zero", &run, &err), TT_EFORMAT);
    assert_int_equal(tt_run_open("/nowhere/at/all", &run, &err), TT_EIO);
    assert_int_equal(tt_run_open("/proc", &run, &err), TT_EFORMAT);
    (void)unlink(fixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_cut_anywhere_gives_what_is_before_the_cut),
        cmocka_unit_test(a_last_block_that_is_still_on_its_way_is_read_when_it_has_come),
        cmocka_unit_test(a_flipped_bit_is_found_and_never_believed),
        cmocka_unit_test(check_finds_every_flipped_bit_that_matters),
        cmocka_unit_test(check_finds_a_flipped_bit_in_any_byte_of_a_header),
        cmocka_unit_test(repair_keeps_what_is_whole),
        cmocka_unit_test(repair_knows_names_whose_block_is_damaged_from_the_footer),
        cmocka_unit_test(files_of_anything_else_are_refused),
    };
    return cmocka_run_group_tests(tests, make_run, drop_run);
}
