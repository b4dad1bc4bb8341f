/* nan.c -- where the first non-finite value of a run appeared.
 *
 * Exists because a NaN is everywhere one step after it appeared, and people see it last in the
 * order of execution: in the loss.  The footer of a file has the first non-finite point of each
 * site, so nothing is scanned.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/order.h"
#include "store/run.h"

#include <inttypes.h>
#include <string.h>

enum { NEIGHBOURS = 48 }; /* sites around the origin among which its inputs are looked for */

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

const char *tt_feed_text(tt_feed_kind kind)
{
    static const char *const texts[] = { "before", "parameter", "previous" };
    return texts[kind];
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

static tt_moment moment_of(const tt_run *run, const tt_nonfinite *n)
{
    return (tt_moment){ .step = n->point.step,
                        .time = n->point.time,
                        .kind = kind_of(run, n->site),
                        .place = tt_order_place(run, n->site),
                        .is_eval = n->point.phase == TT_PHASE_EVAL };
}

/* Did a happen before b? */
static bool is_before(const tt_run *run, const tt_nonfinite *a, const tt_nonfinite *b)
{
    const tt_moment x = moment_of(run, a), y = moment_of(run, b);
    return tt_order_is_before(&x, &y) || (!tt_order_is_before(&y, &x) && a->file < b->file);
}

/* Replaces *best by this point if it happened earlier. */
static tt_status consider(tt_run *run, int32_t file, int32_t site, int64_t index, tt_nonfinite *best,
                          tt_error *err)
{
    tt_nonfinite found = { .file = file, .site = site, .index = index };
    tt_status st = tt_run_point(run, file, site, index, &found.point, err);
    if (st == TT_OK && (best->site < 0 || is_before(run, &found, best)))
        *best = found;
    return st;
}

typedef struct step_points {
    int64_t first_time; /* of a site's points in the step */
    int64_t count;      /* 0: none */
    int64_t before;     /* points of an earlier time than asked about */
} step_points;

/* Counts the points of a site in a step; reads only two columns of a chunk. */
static tt_status count_points(tt_run *run, int32_t file, int32_t site, int64_t step, int64_t time,
                              step_points *out, tt_error *err)
{
    static const tt_column columns[] = { TT_COLUMN_STEP, TT_COLUMN_TIME };
    const tt_index_site *row = tt_run_row(run, file, site);
    *out = (step_points){ 0 };
    for (uint32_t k = 0; row != NULL && k < row->count; k++) {
        const tt_index_chunk *entry = &row->chunks[k];
        if (step < entry->first_step || step > entry->last_step)
            continue;
        const uint64_t *cells[2];
        tt_status st = tt_run_columns(run, run->taps[file], row, entry, columns, 2, cells);
        if (st < 0)
            return tt_fail(err, st, "%s: %s", tt_run_site_name(run, site), tt_status_text(st));
        for (uint32_t i = 0; i < entry->n; i++) {
            int64_t at = (int64_t)cells[1][i];
            if ((int64_t)cells[0][i] != step)
                continue;
            out->first_time = out->count == 0 ? at : out->first_time;
            out->count++;
            out->before += at < time;
        }
    }
    return TT_OK;
}

/* Finds its place among all points of the step in its file, and what kinds of sites these have. */
static tt_status find_order(tt_run *run, tt_nonfinite *of, tt_error *err)
{
    of->order = 1;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        step_points points;
        int64_t until = of->point.time + (site < of->site && of->point.time < INT64_MAX);
        tt_status st = count_points(run, of->file, site, of->point.step, until, &points, err);
        if (st < 0)
            return st;
        of->of += points.count;
        of->order += points.before;
        if (points.count == 0)
            continue;
        of->has_forward |= tt_name_begins(tt_run_site_name(run, site), "activation/");
        of->has_loss |= kind_of(run, site) == TT_ORDER_LOSS;
        of->has_backward |= kind_of(run, site) == TT_ORDER_BACKWARD;
    }
    return TT_OK;
}

tt_status tt_run_nonfinite(tt_run *run, const char *allow, tt_nonfinite *out, tt_error *err)
{
    const tt_nonfinite none = { .file = -1, .site = -1, .index = -1 };
    tt_nonfinite first = none, loss = none;
    int32_t reached = 0, allowed = 0;
    bool has_updates = false;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        const char *name = tt_run_site_name(run, site);
        bool is_allowed = allow != NULL && tt_glob_match(allow, name), is_reached = false;
        if (!tt_site_is_shown(name, NULL))
            continue; /* about the recording itself */
        has_updates |= kind_of(run, site) == TT_ORDER_GRADIENT;
        for (int32_t file = 0; file < tt_run_file_count(run); file++) {
            int64_t index;
            tt_status st = tt_run_first_nonfinite(run, file, site, &index, err);
            bool is_candidate = st == TT_OK && index >= 0 && !is_allowed;
            if (is_candidate)
                st = consider(run, file, site, index, &first, err);
            if (is_candidate && st == TT_OK && kind_of(run, site) == TT_ORDER_LOSS)
                st = consider(run, file, site, index, &loss, err);
            if (st < 0)
                return st;
            is_reached |= index >= 0;
        }
        reached += is_reached && !is_allowed;
        allowed += is_reached && is_allowed;
    }
    /* The program logs a number at any time, and most often the number is the loss. */
    if (first.site >= 0 && !has_stats(&first.point) && loss.site >= 0 && has_stats(&loss.point) &&
        loss.point.step == first.point.step)
        first = loss;
    first.reached = reached;
    first.allowed = allowed;
    if (first.site >= 0) {
        const tt_moment moment = moment_of(run, &first);
        first.birth = tt_order_birth(&moment, has_updates);
        if (first.birth == TT_BIRTH_LOSS && !has_stats(&first.point))
            first.birth = TT_BIRTH_FORWARD; /* a number that was logged */
        tt_status st = find_order(run, &first, err);
        if (st < 0)
            return st;
    }
    *out = first;
    return TT_OK;
}

/* ---- what it was computed from --------------------------------------------- */

typedef struct feeds {
    tt_run *run;
    const tt_nonfinite *of;
    bool is_gradient; /* the origin is the gradient of a parameter */
    tt_feed *out;
    size_t cap, count;
} feeds;

static void add_feed(feeds *f, tt_feed_kind kind, int32_t site, int64_t index)
{
    if (f->count < f->cap && site >= 0 && index >= 0)
        f->out[f->count++] = (tt_feed){ .kind = kind, .site = site, .index = index };
}

/* Finds the first point of a site in the origin's step; *index is -1 if there is none or it is
 * not finite. */
static tt_status find_finite(const feeds *f, int32_t site, uint32_t products, int64_t *index,
                             tt_error *err)
{
    tt_point p;
    tt_status st = tt_run_seek(f->run, f->of->file, site, f->of->point.step, -1, products, index, err);
    if (st == TT_OK && *index >= 0)
        st = tt_run_point(f->run, f->of->file, site, *index, &p, err);
    if (st == TT_OK && *index >= 0 && has_stats(&p) &&
        (p.stats.nan | p.stats.posinf | p.stats.neginf) != 0)
        *index = -1;
    return st;
}

/* Adds the two latest finite points before the origin: of the forward pass; for the gradient of a
 * parameter, gradients of later layers, which backward reached first. */
static tt_status add_before(feeds *f, tt_error *err)
{
    /* Gradients of parameters are recorded at once: only their places differ. */
    const tt_rank_in_step rank = f->is_gradient ? TT_ORDER_GRADIENT : TT_ORDER_FORWARD;
    struct {
        tt_moment when;
        int64_t index;
        int32_t site;
    } latest[2] = { { .site = -1 }, { .site = -1 } };
    const tt_moment origin = { .time = f->of->point.time,
                               .kind = rank,
                               .place = tt_order_place(f->run, f->of->site) };
    int32_t from = f->of->site - NEIGHBOURS, to = f->of->site + NEIGHBOURS;
    for (int32_t site = from < 0 ? 0 : from; site < tt_run_site_count(f->run) && site <= to; site++) {
        tt_rank_in_step kind = kind_of(f->run, site);
        if (site == f->of->site || kind == TT_ORDER_PARAMETER || kind == TT_ORDER_NORM ||
            (kind == TT_ORDER_GRADIENT) != f->is_gradient)
            continue;
        int64_t index = -1;
        step_points points;
        tt_status st = count_points(f->run, f->of->file, site, f->of->point.step, 0, &points, err);
        if (st < 0)
            return st;
        const tt_moment when = { .time = points.first_time,
                                 .kind = rank,
                                 .place = tt_order_place(f->run, site) };
        if (points.count == 0 || !tt_order_is_before(&when, &origin) ||
            (latest[1].site >= 0 && !tt_order_is_before(&latest[1].when, &when)))
            continue;
        st = find_finite(f, site, TT_PRODUCT_STATS, &index, err);
        if (st < 0)
            return st;
        if (index < 0)
            continue;
        int slot = latest[0].site >= 0 && !tt_order_is_before(&latest[0].when, &when) ? 1 : 0;
        if (slot == 0)
            latest[1] = latest[0];
        latest[slot].when = when;
        latest[slot].index = index;
        latest[slot].site = site;
    }
    for (int i = 0; i < 2; i++)
        add_feed(f, TT_FEED_BEFORE, latest[i].site, latest[i].index);
    return TT_OK;
}

/* Adds parameter/<module>.<name> of the module that returned the value; for the gradient of a
 * parameter, that parameter. */
static tt_status add_parameters(feeds *f, tt_error *err)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "gradient/" };
    const char *name = tt_run_site_name(f->run, f->of->site), *module = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tt_name_begins(name, kinds[i]))
            module = name + strlen(kinds[i]);
    size_t len = module != NULL ? strcspn(module, "[") : 0; /* [: one of several outputs */
    for (int32_t site = 0; module != NULL && site < tt_run_site_count(f->run); site++) {
        const char *other = tt_run_site_name(f->run, site);
        if (!tt_name_begins(other, "parameter/") ||
            strncmp(other + strlen("parameter/"), module, len) != 0)
            continue;
        const char *rest = other + strlen("parameter/") + len;
        int64_t index = -1;
        if (f->is_gradient ? *rest != '\0' : *rest != '.' || strchr(rest + 1, '.') != NULL)
            continue; /* of another module */
        tt_status st = find_finite(f, site, 0, &index, err);
        if (st < 0)
            return st;
        add_feed(f, TT_FEED_PARAMETER, site, index);
    }
    return TT_OK;
}

/* Adds the gradient that an optimizer used, one step ago, to compute the parameter. */
static tt_status add_gradient(feeds *f, tt_error *err)
{
    const tt_nonfinite *of = f->of;
    const char *name = tt_run_site_name(f->run, of->site);
    int32_t site = tt_order_find(f->run, "gradient/", name + strlen("parameter/"), "");
    int64_t index = -1;
    tt_point before;
    tt_status st = tt_run_point(f->run, of->file, of->site, of->index - 1, &before, err);
    if (st == TT_OK && site >= 0)
        st = tt_run_seek(f->run, of->file, site, before.step, -1, 0, &index, err);
    if (st == TT_OK)
        add_feed(f, TT_FEED_BEFORE, site, index);
    return st;
}

tt_status tt_run_feeds(tt_run *run, const tt_nonfinite *of, tt_feed *out, size_t cap, size_t *count,
                       tt_error *err)
{
    feeds f = { .run = run, .of = of, .out = out, .cap = cap };
    tt_status st = TT_OK;
    if (of->site >= 0) {
        f.is_gradient = kind_of(run, of->site) == TT_ORDER_GRADIENT;
        if (of->birth != TT_BIRTH_UPDATE)
            st = add_before(&f, err);
        else if (of->index > 0)
            st = add_gradient(&f, err);
        if (st == TT_OK)
            st = add_parameters(&f, err);
        if (st == TT_OK)
            add_feed(&f, TT_FEED_PREVIOUS, of->site, of->index - 1);
    }
    if (st == TT_OK)
        *count = f.count;
    return st;
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

tt_status tt_run_birth_line(tt_run *run, const tt_nonfinite *n, tt_buf *out)
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
        return tt_buf_printf(out, "%s%s; %s", phrase,
                             n->has_loss ? "; the loss was finite" : ", or in a loss that was not seen",
                             outputs);
    }
    return TT_EINVAL;
}

const char *tt_nonfinite_next(const tt_nonfinite *n)
{
    if (n->birth == TT_BIRTH_LOSS)
        return "look next at the lines that compute the loss: tensortap.flow draws them";
    if (n->birth == TT_BIRTH_BACKWARD && !n->has_backward)
        return "look next at the gradients of outputs: tensortap run --grads all --on-nonfinite raise";
    if (n->birth == TT_BIRTH_FORWARD && n->order == 1 && has_stats(&n->point))
        return "look next at the inputs of modules: tensortap run --inputs --on-nonfinite raise";
    return NULL;
}
