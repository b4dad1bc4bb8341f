/* nan.c -- where the first non-finite value of a run appeared.
 *
 * Exists because a NaN is everywhere one step after it appeared, and people see it last in the
 * order of execution: in the loss.  The footer of a file has the first non-finite point of each
 * site, so that only sites which begin with a mask are scanned.  origin.c says which of them counts.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/answer.h"
#include "report/instant.h"
#include "report/origin.h"
#include "report/settings.h"
#include "store/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *tt_birth_text(tt_birth birth)
{
    static const char *const texts[] = { "forward", "update", "backward", "loss", "forward or update" };
    return texts[birth];
}

const char *tt_birth_phrase(tt_birth birth)
{
    static const char *const phrases[] = { [TT_BIRTH_FORWARD] = "born in the forward pass",
                                           [TT_BIRTH_UPDATE] = "born by an update",
                                           [TT_BIRTH_BACKWARD] = "born in the backward pass",
                                           [TT_BIRTH_LOSS] = "born in the loss",
                                           [TT_BIRTH_EVALUATION] =
                                               "born in the forward pass or by an update before it" };
    return phrases[birth];
}

static tt_rank_in_step kind_of(const tt_run *run, int32_t site)
{
    return tt_order_kind(tt_run_site_name(run, site));
}

static bool has_stats(const tt_point *p)
{
    return (p->products & TT_PRODUCT_STATS) != 0;
}

/* ---- the origin ------------------------------------------------------------ */

/* The bad points that the footers of all files know. */
typedef struct gathered {
    tt_run *run;
    tt_candidate *items; /* owned; file by file */
    size_t count, cap;
    int64_t unread; /* points that are damaged */
} gathered;

static const char *class_of(const tt_run *run, int32_t file, const char *name)
{
    tt_module module;
    const char *path = strchr(name, '/');
    size_t len = path != NULL ? strcspn(path + 1, "[") : 0; /* [: one of several outputs */
    for (int32_t i = 0; path != NULL && tt_run_module(run, file, i, &module) == TT_OK; i++)
        if (strlen(module.path) == len && strncmp(module.path, path + 1, len) == 0)
            return module.class_name;
    return NULL;
}

/* The class of the module matters to few values. */
static tt_badness judge(const gathered *g, int32_t file, const char *name, const tt_stats *s,
                        bool is_skipped)
{
    bool may_be_mask = s->neginf != 0 && s->nan == 0 && s->posinf == 0;
    const char *class_name = may_be_mask ? class_of(g->run, file, name) : NULL;
    return tt_badness_of(name, class_name, s->nan, s->posinf, s->neginf, is_skipped);
}

/* Appends the point as a candidate; *badness: its own. */
static tt_status add_candidate(gathered *g, int32_t file, int32_t site, int64_t index,
                               tt_badness *badness)
{
    tt_point p;
    tt_status st = tt_run_point(g->run, file, site, index, &p, NULL);
    if (st == TT_OK)
        st = tt_grow(&g->items, &g->cap, g->count + 1, sizeof *g->items);
    if (st < 0)
        return st;
    const char *name = tt_run_site_name(g->run, site);
    tt_rank_in_step kind = tt_order_kind(name);
    bool is_mask = p.stats.sumsq == 0; /* all others are 0 */
    *badness = has_stats(&p) ? judge(g, file, name, &p.stats, p.is_skipped) : TT_BAD_FOR_CERTAIN;
    bool is_of_all = kind == TT_ORDER_GRADIENT || kind == TT_ORDER_NORM;
    g->items[g->count++] = (tt_candidate){
        .when = { .step = p.step,
                  .time = p.time,
                  .round = is_of_all ? TT_ROUND_ALL : 0,
                  .kind = kind,
                  .place = tt_order_place(g->run, site),
                  .file = file,
                  .is_eval = p.phase == TT_PHASE_EVAL },
        .site = site,
        .index = index,
        .badness = *badness,
        .is_number = !has_stats(&p),
        .is_new = index > 0 && !is_mask && tt_name_begins(name, "activation/"),
    };
    return TT_OK;
}

/* Finds the first point after this one that is bad for certain; *index is -1 if there is none. */
static tt_status find_certain(gathered *g, int32_t file, int32_t site, int64_t after, int64_t *index)
{
    static const tt_column columns[] = { TT_COLUMN_PRODUCTS, TT_COLUMN_PHASE, TT_COLUMN_NAN,
                                         TT_COLUMN_POSINF, TT_COLUMN_NEGINF };
    const tt_index_site *row = tt_run_row(g->run, file, site);
    const char *name = tt_run_site_name(g->run, site);
    tt_status st = TT_OK;
    int64_t before = 0;
    *index = -1;
    for (uint32_t k = 0; k < row->count && st == TT_OK && *index < 0; before += row->chunks[k++].n) {
        const tt_index_chunk *entry = &row->chunks[k];
        const uint64_t *cells[5];
        if (before + entry->n <= after)
            continue;
        st = tt_run_columns(g->run, g->run->taps[file], row, entry, columns, 5, cells);
        for (uint32_t i = 0; st == TT_OK && *index < 0 && i < entry->n; i++) {
            const tt_stats stats = { .nan = tt_count_of(cells[2][i]),
                                     .posinf = tt_count_of(cells[3][i]),
                                     .neginf = tt_count_of(cells[4][i]) };
            bool is_bad = before + i > after && (cells[0][i] & TT_PRODUCT_STATS) != 0 &&
                          (stats.nan | stats.posinf | stats.neginf) != 0;
            bool is_skipped = (cells[1][i] & TT_PHASE_SKIPPED) != 0;
            if (is_bad && judge(g, file, name, &stats, is_skipped) == TT_BAD_FOR_CERTAIN)
                *index = before + i;
        }
        if (st == TT_EFORMAT) {
            g->unread += entry->n;
            st = TT_OK;
        }
    }
    return st;
}

/* Adds the first bad point of a site in a file, and, where that may be intended, the first that is not. */
static tt_status gather_site(gathered *g, int32_t file, int32_t site)
{
    int64_t index, next = -1;
    tt_badness badness;
    tt_status st = tt_run_first_nonfinite(g->run, file, site, &index, NULL);
    bool is_bad = st == TT_OK && index >= 0;
    if (is_bad)
        st = add_candidate(g, file, site, index, &badness);
    if (is_bad && st == TT_OK && badness != TT_BAD_FOR_CERTAIN) {
        st = find_certain(g, file, site, index, &next);
        if (st == TT_OK && next >= 0)
            st = add_candidate(g, file, site, next, &badness);
    }
    if (st == TT_EFORMAT) { /* damaged: what can be read is there */
        const tt_index_site *row = tt_run_row(g->run, file, site);
        g->unread += row != NULL ? row->stored : 0;
        st = TT_OK;
    }
    return st;
}

tt_status tt_origin_of_site(tt_run *run, int32_t file, int32_t site, int64_t *index)
{
    gathered g = { .run = run };
    tt_status st = gather_site(&g, file, site);
    *index = -1;
    for (size_t i = 0; i < g.count; i++)
        if (g.items[i].badness == TT_BAD_FOR_CERTAIN)
            *index = g.items[i].index; /* it is the last */
    free(g.items);
    return st;
}

/* Sets the rounds of the candidates of this step, file by file. */
static tt_status set_rounds(gathered *g, int64_t step)
{
    tt_rounds rounds = { 0 };
    tt_status st = TT_OK;
    int32_t file = -1;
    for (size_t i = 0; i < g->count && st == TT_OK; i++) {
        tt_moment *when = &g->items[i].when;
        int64_t begin;
        if (when->step != step || when->is_eval || when->round == TT_ROUND_ALL)
            continue;
        if (when->file != file) {
            file = when->file;
            st = tt_rounds_read(g->run, file, step, &rounds);
        }
        if (st == TT_OK)
            when->round = tt_rounds_find(&rounds, when->time, &begin);
    }
    tt_rounds_free(&rounds);
    return st;
}

/* Finds its place among all points of the step in its file, and what kinds of sites these have. */
static tt_status find_order(tt_run *run, tt_nonfinite *of)
{
    tt_instants points = { 0 };
    tt_status st = TT_OK;
    of->order = 1;
    for (int32_t site = 0; st == TT_OK && site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        if (!tt_site_is_shown(name, NULL))
            continue;
        points.count = 0;
        st = tt_instants_read(run, of->file, site, of->point.step, &points);
        of->of += (int64_t)points.count;
        for (size_t i = 0; i < points.count; i++)
            of->order += points.items[i].time < of->point.time ||
                         (points.items[i].time == of->point.time && site < of->site);
        if (points.count == 0)
            continue;
        of->has_forward |= tt_name_begins(name, "activation/");
        of->has_loss |= tt_order_kind(name) == TT_ORDER_LOSS;
        of->has_backward |= tt_order_kind(name) == TT_ORDER_BACKWARD;
    }
    free(points.items);
    of->unread += points.unread;
    return st;
}

/* All candidates, and how many sites they are of. */
static tt_status gather(gathered *g, const char *allow, tt_nonfinite *out)
{
    int32_t sites = tt_run_site_count(g->run), last = -1;
    enum { REACHED = 1, ALLOWED = 2, MASKED = 4 };
    unsigned char *found = calloc((size_t)sites + 1, 1); /* owned; of each site */
    tt_status st = found != NULL ? TT_OK : TT_ENOMEM;
    for (int32_t file = 0; file < tt_run_file_count(g->run); file++)
        for (int32_t site = 0; st == TT_OK && site < sites; site++) {
            const char *name = tt_run_site_name(g->run, site);
            if (!tt_site_is_shown(name, NULL))
                continue; /* about the recording itself */
            size_t before = g->count;
            st = gather_site(g, file, site);
            bool is_allowed = allow != NULL && tt_glob_match(allow, name);
            for (size_t i = before; i < g->count; i++)
                found[site] |= is_allowed                             ? ALLOWED
                               : g->items[i].badness == TT_BAD_MASKED ? MASKED
                                                                      : REACHED;
            g->count = is_allowed ? before : g->count;
        }
    for (size_t i = 0; i < g->count; i++) {
        bool is_certain = g->items[i].badness == TT_BAD_FOR_CERTAIN;
        out->files += is_certain && last != g->items[i].when.file;
        last = is_certain ? g->items[i].when.file : last;
    }
    for (int32_t site = 0; st == TT_OK && site < sites; site++) {
        out->allowed += (found[site] & ALLOWED) != 0;
        out->reached += (found[site] & REACHED) != 0;
        if ((found[site] & (MASKED | REACHED)) == MASKED && out->masked++ == 0)
            out->masked_site = site;
    }
    free(found);
    return st;
}

/* How many gradients became bad with this one, of which nobody knows which was first. */
static int32_t count_together(const gathered *g, const tt_candidate *origin)
{
    int32_t count = 0;
    bool is_unknown = tt_order_is_unknown(g->run, origin->site);
    for (const tt_candidate *one = g->items; is_unknown && one < g->items + g->count; one++)
        count += one->badness == origin->badness && one->when.file == origin->when.file &&
                 one->when.step == origin->when.step && tt_order_is_unknown(g->run, one->site);
    return count > 1 ? count : 0;
}

/* A site that seemed to hold a mask is the origin. */
static void count_as_reached(const gathered *g, int32_t site, tt_nonfinite *out)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->items[i].site == site && g->items[i].badness != TT_BAD_MASKED)
            return; /* it is among them */
    out->reached++;
    out->masked--;
    for (size_t i = g->count; out->masked_site == site && i-- > 0;)
        if (g->items[i].badness == TT_BAD_MASKED && g->items[i].site != site)
            out->masked_site = g->items[i].site;
}

static bool has_updates(const tt_run *run)
{
    for (int32_t site = 0; site < tt_run_site_count(run); site++)
        if (kind_of(run, site) == TT_ORDER_GRADIENT)
            return true;
    return false;
}

tt_status tt_run_nonfinite(tt_run *run, const char *allow, tt_nonfinite *out, tt_error *err)
{
    tt_nonfinite first = { .file = -1, .site = -1, .index = -1, .masked_site = -1 };
    gathered g = { .run = run };
    tt_status st = gather(&g, allow, &first);
    const tt_candidate *origin = st == TT_OK ? tt_origin_choose(g.items, g.count) : NULL;
    if (origin != NULL)
        st = set_rounds(&g, origin->when.step); /* a step of another number is not the first */
    if (st == TT_OK && (origin = tt_origin_choose(g.items, g.count)) != NULL) {
        first.file = origin->when.file;
        first.site = origin->site;
        first.index = origin->index;
        first.birth = tt_order_birth(&origin->when, has_updates(run));
        st = tt_run_point(run, first.file, first.site, first.index, &first.point, NULL);
        if (first.birth == TT_BIRTH_LOSS && origin->is_number)
            first.birth = TT_BIRTH_FORWARD; /* a number that was logged */
        first.together = count_together(&g, origin);
        if (origin->badness == TT_BAD_MASKED) /* it is counted now */
            count_as_reached(&g, origin->site, &first);
    }
    first.unread = g.unread;
    if (st == TT_OK && origin != NULL)
        st = find_order(run, &first);
    free(g.items);
    if (st < 0)
        return tt_fail_plain(err, st);
    *out = first;
    return TT_OK;
}

/* ---- in words ---------------------------------------------------------------- */

/* What a parameter's earlier points say of the update. */
static tt_status put_update(tt_run *run, const tt_nonfinite *n, tt_buf *out)
{
    tt_point last;
    if (n->index == 0 || tt_run_point(run, n->file, n->site, n->index - 1, &last, NULL) < 0)
        return tt_buf_text(out, "born before the first step that was recorded");
    if (last.step == n->point.step - 1)
        return tt_buf_text(out, "born by the optimizer's update of the step before");
    return tt_buf_printf(out, "%s after step %" PRId64, tt_birth_phrase(n->birth), last.step);
}

/* Where it came from, as far as that was recorded: "born in the loss (backward() at ...". */
static tt_status put_birth(tt_run *run, const tt_nonfinite *n, tt_buf *out)
{
    const char *phrase = tt_birth_phrase(n->birth),
               *outputs = n->has_forward ? "recorded module outputs were finite"
                                         : "no module output was recorded in this step";
    switch (n->birth) {
    case TT_BIRTH_FORWARD:
    case TT_BIRTH_EVALUATION:
        if (!has_stats(&n->point))
            return tt_buf_text(out,
                               "a number that was logged; every tensor recorded before it was finite");
        return tt_buf_printf(out, "%s; %s", phrase,
                             n->order == 1 ? "nothing was recorded before it in this step"
                                           : "everything recorded before it was finite");
    case TT_BIRTH_UPDATE:
        return put_update(run, n, out);
    case TT_BIRTH_LOSS:
        return tt_buf_printf(out, "%s (backward() at %s); %s", phrase,
                             tt_run_site_name(run, n->site) + strlen("loss/"), outputs);
    case TT_BIRTH_BACKWARD:
        (void)tt_buf_text(out, phrase);
        if (n->together > 0) /* which of them was first is not known */
            (void)tt_buf_printf(out, ", among %d gradients that were read together", (int)n->together);
        return tt_buf_printf(out, "%s; %s",
                             n->has_loss ? "; the loss was finite" : ", or in a loss that was not seen",
                             outputs);
    }
    return TT_EINVAL;
}

/* What would show more than this run does; NULL: nothing that we know. */
static const char *hint_of(const tt_nonfinite *n)
{
    if (n->birth == TT_BIRTH_LOSS)
        return "look next at the lines that compute the loss: tensortap.flow draws them";
    if (n->birth == TT_BIRTH_BACKWARD && !n->has_backward)
        return "look next at the gradients of outputs: tensortap run --grads all --on-nonfinite raise";
    if (n->birth == TT_BIRTH_FORWARD && n->order == 1 && has_stats(&n->point))
        return "look next at the inputs of modules: tensortap run --inputs --on-nonfinite raise";
    return NULL;
}

/* ---- as an answer -------------------------------------------------------------- */

static tt_status put_feeds(tt_run *run, const tt_nonfinite *n, tt_answers *among, tt_answer *out,
                           tt_error *err)
{
    tt_feed *feeds = tt_answers_alloc(among, TT_FEEDS_MOST * sizeof *feeds);
    tt_status st =
        feeds != NULL ? tt_run_feeds(run, n, feeds, TT_FEEDS_MOST, &out->feed_count, err) : TT_ENOMEM;
    out->feeds = feeds;
    return st == TT_EFORMAT ? TT_OK : st; /* damaged: what can be read is there */
}

tt_status tt_origin_answer(tt_run *run, const tt_nonfinite *n, const char *path, tt_answers *among,
                           tt_answer *out, tt_error *err)
{
    out->likelihood = TT_LIKELIHOOD_CERTAIN;
    const tt_origin origin = tt_origin_of(n, tt_run_site_name(run, n->site));
    const char *place = out->place;
    tt_run_file file = { 0 };
    tt_buf sentence = { 0 }, detail = { 0 };
    int64_t step;
    (void)tt_origin_say(&origin, &sentence);
    (void)put_birth(run, n, &detail);
    (void)tt_run_file_get(run, n->file, &file);
    const char *position = tt_answers_position(among, run, file.rank);
    if (*position != '\0')
        (void)tt_buf_printf(&detail, "\n%s", position);
    if (hint_of(n) != NULL)
        (void)tt_buf_printf(&detail, "\n%s", hint_of(n));
    out->sentence = tt_answers_take(among, &sentence);
    out->detail = tt_answers_take(among, &detail);
    tt_answers_set_site(among, out, origin.name, n->site);
    tt_answers_set_code(among, out, run);
    out->place = place != NULL ? place : out->place;
    out->first_step = out->last_step = origin.step;
    out->call = n->point.call;
    out->number_count = 0;
    tt_answer_number(out, "nan", (double)origin.nan);
    tt_answer_number(out, "inf", (double)origin.inf);
    tt_answer_number(out, "sites", (double)origin.sites);
    tt_answers_set_ranks(among, out, &file.rank, run->taps[0]->rank != run->taps[run->count - 1]->rank);
    const char *word = tt_answers_run(among, run, path);
    tt_answers_next(among, out, "tensortap stats %s %s", word, tt_answers_word(among, origin.name));
    if (tt_answers_find_blackbox(among, run, &step))
        tt_answers_next(among, out, "tensortap replay %s", word);
    return put_feeds(run, n, among, out, err);
}

void tt_origin_rest(const tt_run *run, const tt_nonfinite *n, tt_answers *out)
{
    const tt_totals totals = tt_run_totals(run);
    int32_t shown = tt_run_shown_count(run, NULL);
    int64_t steps;
    if (__builtin_sub_overflow(totals.last_step, totals.first_step, &steps) || steps == INT64_MAX)
        steps = INT64_MAX - 1;
    if (shown == 0)
        tt_answers_put(out, &TT_ANSWER(NOTE, NOTE, .rule = "empty",
                                       .sentence = "nothing has been recorded in this run"));
    else if (n->site < 0) {
        int32_t sites = shown - n->allowed - n->masked;
        const char *allowed =
            n->allowed > 0 ? tt_answers_text(out, "; %d sites were left out by --allow", (int)n->allowed)
                           : "";
        tt_answers_put(
            out, &TT_ANSWER(NOTE, FINE, .rule = "finite",
                            .sentence = tt_answers_text(
                                out, "all values%s of %d site%s in %" PRId64 " step%s are finite%s",
                                totals.damaged_bytes > 0 || n->unread > 0 ? " that can be read" : "",
                                (int)sites, sites == 1 ? "" : "s", steps + 1, steps == 0 ? "" : "s",
                                allowed)));
    }
    if (n->masked > 0) {
        tt_answer masked = TT_ANSWER(NOTE, NOTE, .rule = "masked");
        const char *name = tt_run_site_name(run, n->masked_site);
        tt_answers_set_site(out, &masked, name, n->masked_site);
        tt_answer_number(&masked, "sites", n->masked);
        masked.sentence =
            tt_answers_text(out, "%d site%s only -Inf where masks do, such as %s; not counted",
                            (int)n->masked, n->masked == 1 ? " holds" : "s hold", name);
        tt_answers_put(out, &masked);
    }
}

tt_status tt_nonfinite_answer(tt_run *run, const tt_nonfinite *n, const char *path, tt_answers *out,
                              tt_error *err)
{
    tt_status st = TT_OK;
    if (n->site >= 0) {
        tt_answer origin = TT_ANSWER(ORIGIN, ERROR, .rule = "nonfinite");
        if (n->point.is_skipped)
            origin.severity = TT_SEVERITY_NOTE; /* nothing was computed from it */
        st = tt_origin_answer(run, n, path, out, &origin, err);
        tt_answers_put(out, &origin);
    }
    tt_origin_rest(run, n, out);
    tt_damage_answer(run, path, n->unread, out);
    return st < 0 ? st : tt_fail_plain(err, out->st);
}
