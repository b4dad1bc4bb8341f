/* anomalies.c -- the sites with which something is wrong.
 *
 * Exists so that `show` begins with them: the worst kind first, and of NaN and Inf the
 * site that had it first, which is where to look.
 * SPDX-License-Identifier: Apache-2.0 */
#include "anomalies.h"

#include "overview.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_LISTED = 10 };

/* A site that is odd: the worst that is wrong with it, and when that began. */
typedef struct site_anomaly {
    int32_t site;
    tt_anomaly kind;
    int32_t file;   /* of the first value that is not finite, over all ranks looked at; -1: none */
    tt_point first; /* that value */
} site_anomaly;

/* What is odd, in words: "2 NaN from step 31, rank 1", "all zero". */
static void describe_anomaly(tt_run *run, const site_anomaly *at, uint32_t bits, char *out, size_t room)
{
    int len = 0;
    out[0] = '\0';
    if (at->file >= 0) {
        char counts[128], rank[32] = "";
        bool is_number = (at->first.products & TT_PRODUCT_STATS) == 0;
        (void)tt_screen_nonfinite(&at->first.stats, counts, sizeof counts);
        if (tt_overview_rank(run, at->file) >= 0)
            (void)snprintf(rank, sizeof rank, ", rank %d", (int)tt_overview_rank(run, at->file));
        len = snprintf(out, room, "%s from step %" PRId64 "%s%s%s",
                       is_number || *counts == '\0' ? "not finite" : counts, at->first.step, rank,
                       at->first.phase == TT_PHASE_EVAL ? ", in eval mode" : "",
                       !is_number && tt_screen_has_overflowed(&at->first.stats) ? ", float16 overflow"
                                                                                : "");
    }
    for (tt_anomaly a = TT_ANOMALY_EXPLODING; a < TT_ANOMALY_COUNT_; a++)
        if ((bits & 1u << a) != 0 && len >= 0 && (size_t)len + 20 < room)
            len +=
                snprintf(out + len, room - (size_t)len, "%s%s", len > 0 ? ", " : "", tt_anomaly_text(a));
}

static int by_kind_and_time(const void *a, const void *b)
{
    const site_anomaly *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->first.step != y->first.step)
        return x->first.step < y->first.step ? -1 : 1;
    if (x->first.time != y->first.time)
        return x->first.time < y->first.time ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

/* Finds the first value that is not finite over all ranks looked at. */
static tt_status find_first(tt_run *run, const tt_look *look, site_anomaly *at, tt_error *err)
{
    tt_status st = TT_OK;
    for (int32_t file = 0; st == TT_OK && file < tt_run_file_count(run); file++) {
        int64_t index = -1;
        tt_point point;
        if (!tt_look_has_file(look, run, file))
            continue;
        st = tt_run_first_nonfinite(run, file, at->site, &index, err);
        if (st == TT_OK && index >= 0)
            st = tt_run_point(run, file, at->site, index, &point, err);
        if (st == TT_OK && index >= 0 &&
            (at->file < 0 || point.step < at->first.step ||
             (point.step == at->first.step && point.time < at->first.time))) {
            at->file = file;
            at->first = point;
        }
    }
    return st;
}

/* All sites of the tree that are odd, the worst kind first, and of NaN and Inf those
 * that had it first; *out is owned by the caller. */
static tt_status list_anomalies(tt_run *run, const tt_run_tree *tree, const tt_look *look,
                                site_anomaly **out, size_t *count, tt_error *err)
{
    int32_t sites = tt_run_site_count(run);
    size_t found = 0, most = 0;
    for (int32_t site = 0; site < sites; site++)
        most += tt_run_tree_anomalies(tree, site) != 0;
    site_anomaly *all = calloc(most + 1, sizeof *all);
    tt_status st = all != NULL ? TT_OK : TT_ENOMEM;
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        uint32_t bits = tt_run_tree_anomalies(tree, site);
        if (bits == 0)
            continue;
        site_anomaly *at = &all[found++];
        *at = (site_anomaly){ .site = site, .kind = (tt_anomaly)__builtin_ctz(bits), .file = -1 };
        if (at->kind == TT_ANOMALY_NONFINITE)
            st = find_first(run, look, at, err);
    }
    if (st < 0) {
        free(all);
        return st;
    }
    if (found > 0)
        qsort(all, found, sizeof *all, by_kind_and_time);
    *out = all;
    *count = found;
    return TT_OK;
}

tt_status tt_anomalies_print(const char *path, tt_run *run, const tt_run_tree *tree, const tt_look *look,
                             bool shows_all, int *lines, tt_error *err)
{
    static const tt_table_column columns[] = { { "", .least = -18 }, { .title = "" } };
    site_anomaly *all = NULL;
    size_t found = 0, shown = 0, most = shows_all ? SIZE_MAX : MOST_LISTED;
    if (tt_terminal.rows > 0 && !shows_all && (size_t)tt_terminal.rows / 3 < most)
        most = (size_t)tt_terminal.rows / 3 + 1;
    tt_status st = list_anomalies(run, tree, look, &all, &found, err);
    *lines = 0;
    if (st < 0 || found == 0)
        goto out;
    tt_table *table = tt_table_create(&tt_terminal.style, columns, 2);
    for (; shown < found && shown < most; shown++) {
        const site_anomaly *at = &all[shown];
        bool is_alarm = at->kind == TT_ANOMALY_NONFINITE || at->kind == TT_ANOMALY_EXPLODING;
        char words[200];
        describe_anomaly(run, at, tt_run_tree_anomalies(tree, at->site), words, sizeof words);
        tt_table_branch(table, tt_terminal.style.is_ascii ? "! " : "▲ ", TT_MOOD_PLAIN,
                        tt_run_site_name(run, at->site));
        tt_table_cell(table, is_alarm ? TT_MOOD_ALARM : TT_MOOD_REMARK, words);
    }
    putchar('\n');
    st = tt_screen_table(table, false, TT_OK);
    bool has_nonfinite = all[0].kind == TT_ANOMALY_NONFINITE;
    if (st == TT_OK && found > shown)
        printf("  and %zu more that are odd; --all lists them\n", found - shown);
    if (st == TT_OK && has_nonfinite) { /* a line to copy */
        printf("  %swhere the first was born: tensortap nan ", tt_screen_ink(TT_MOOD_FAINT));
        tt_screen_name(path);
        printf("%s\n", tt_screen_ink(TT_MOOD_PLAIN));
    }
    *lines = (int)shown + 1 + (found > shown) + has_nonfinite;
out:
    free(all);
    return st;
}
