/* nan.c -- where the first non-finite value of a run was born.
 *
 * Exists because a NaN is everywhere a step after it appeared, and the last place
 * to show it (the loss) is the first that people see.  The footer knows the first
 * non-finite point of each site, so that nothing is scanned.
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "report/order.h"

#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 48 }; /* sites around the origin among which its inputs are looked for */

typedef struct found {
    tt_moment moment;
    int64_t index;
    tt_point point;
} found;

/* Puts the earlier of the two into best. */
static tt_status consider(tt_run *run, int32_t file, int32_t site, int64_t index, found *best,
                          tt_error *err)
{
    found f = { .index = index };
    tt_status st = tt_run_point(run, file, site, index, &f.point, err);
    if (st < 0)
        return st;
    f.moment = (tt_moment){ .step = f.point.step,
                            .kind = tt_order_kind(tt_run_site_name(run, site)),
                            .time = f.point.time,
                            .file = file,
                            .site = site,
                            .place = tt_order_place(run, site) };
    if (best->index < 0 || tt_order_before(&f.moment, &best->moment))
        *best = f;
    return TT_OK;
}

static bool has_stats(const found *f)
{
    return f->index >= 0 && (f->point.products & TT_PRODUCT_STATS) != 0;
}

/* Takes note of what was recorded in the step. */
static void note_kind(tt_nonfinite *out, const char *name)
{
    static const char activation[] = "activation/";
    tt_rank_in_step kind = tt_order_kind(name);
    out->has_forward |= strncmp(name, activation, strlen(activation)) == 0;
    out->has_loss |= kind == TT_ORDER_LOSS;
    out->has_backward |= kind == TT_ORDER_BACKWARD;
}

/* Its place among all points of the step in its file. */
static tt_status find_order(tt_run *run, tt_nonfinite *out, tt_error *err)
{
    int64_t order = 1, of = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        tt_order_count seen;
        int64_t until = out->point.time + (site < out->site && out->point.time < INT64_MAX);
        tt_status st = tt_order_look(run, out->file, site, out->point.step, until, &seen);
        if (st < 0)
            return tt_fail(err, st, "%s: %s", tt_run_site_name(run, site), tt_status_text(st));
        of += seen.points;
        order += seen.before;
        if (seen.points > 0)
            note_kind(out, tt_run_site_name(run, site));
    }
    out->order = order;
    out->of = of;
    return TT_OK;
}

tt_status tt_run_nonfinite(tt_run *run, const char *allow, tt_nonfinite *out, tt_error *err)
{
    found best = { .index = -1 }, loss = { .index = -1 };
    int32_t reached = 0, allowed = 0;
    for (int32_t site = 0; site < tt_run_site_count(run); site++) {
        bool is_allowed = allow != NULL && tt_glob_match(allow, tt_run_site_name(run, site));
        bool is_reached = false;
        if (!tt_site_is_shown(tt_run_site_name(run, site), NULL))
            continue; /* about the recording itself */
        for (int32_t file = 0; file < tt_run_file_count(run); file++) {
            int64_t index;
            tt_status st = tt_run_first_nonfinite(run, file, site, &index, err);
            if (st == TT_OK && index >= 0 && !is_allowed)
                st = consider(run, file, site, index, &best, err);
            if (st == TT_OK && index >= 0 && !is_allowed &&
                tt_order_kind(tt_run_site_name(run, site)) == TT_ORDER_LOSS)
                st = consider(run, file, site, index, &loss, err);
            if (st < 0)
                return st;
            is_reached |= index >= 0;
        }
        reached += is_reached && !is_allowed;
        allowed += is_reached && is_allowed;
    }
    tt_nonfinite origin = { .file = -1, .site = -1, .index = -1, .reached = reached, .allowed = allowed };
    /* A number was logged whenever the program did so, and most often is the loss. */
    if (best.index >= 0 && !has_stats(&best) && has_stats(&loss) && loss.moment.step == best.moment.step)
        best = loss;
    if (best.index >= 0) {
        origin.file = best.moment.file;
        origin.site = best.moment.site;
        origin.index = best.index;
        origin.point = best.point;
        origin.birth = best.moment.kind == TT_ORDER_PARAMETER                  ? TT_BIRTH_UPDATE
                       : best.moment.kind == TT_ORDER_LOSS && has_stats(&best) ? TT_BIRTH_LOSS
                       : best.moment.kind <= TT_ORDER_LOSS                     ? TT_BIRTH_FORWARD
                                                                               : TT_BIRTH_BACKWARD;
        tt_status st = find_order(run, &origin, err);
        if (st < 0)
            return st;
    }
    *out = origin;
    return TT_OK;
}

/* ---- what fed it --------------------------------------------------------- */

static bool is_finite(const tt_point *p)
{
    return (p->products & TT_PRODUCT_STATS) == 0 ||
           (p->stats.nan | p->stats.posinf | p->stats.neginf) == 0;
}

typedef struct feeds {
    tt_run *run;
    const tt_nonfinite *of;
    tt_feed *out;
    size_t cap, count;
} feeds;

static void add_feed(feeds *f, tt_feed_kind kind, int32_t site, int64_t index)
{
    if (f->count < f->cap)
        f->out[f->count++] = (tt_feed){ .kind = kind, .site = site, .index = index };
}

/* How long before the origin something of its step happened: time, then order; of
 * gradients, which are recorded at once, the order alone.  false: it did not. */
static bool find_age(const feeds *f, int32_t site, int64_t there, int64_t age[2])
{
    const char *name = tt_run_site_name(f->run, f->of->site);
    bool is_gradient = tt_order_kind(name) == TT_ORDER_GRADIENT;
    if (is_gradient)
        age[0] = 0;
    else if (__builtin_sub_overflow(f->of->point.time, there, &age[0]))
        return false; /* no clock says so */
    age[1] = (int64_t)tt_order_place(f->run, f->of->site) - tt_order_place(f->run, site);
    return age[0] > 0 || (age[0] == 0 && age[1] > 0);
}

static bool is_younger(const int64_t a[2], const int64_t b[2])
{
    return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

/* The two latest finite points before it: of the forward; of a parameter's gradient
 * those of the layers behind, which backward came to first. */
static tt_status add_before(feeds *f, tt_error *err)
{
    struct {
        int64_t age[2], index;
        int32_t site;
    } latest[2] = { { .site = -1 }, { .site = -1 } };
    int32_t from = f->of->site - NEIGHBOURS, to = f->of->site + NEIGHBOURS;
    bool is_gradient = tt_order_kind(tt_run_site_name(f->run, f->of->site)) == TT_ORDER_GRADIENT;
    for (int32_t site = from < 0 ? 0 : from; site < tt_run_site_count(f->run) && site <= to; site++) {
        tt_rank_in_step kind = tt_order_kind(tt_run_site_name(f->run, site));
        if (site == f->of->site || kind == TT_ORDER_PARAMETER || kind == TT_ORDER_NORM ||
            (kind == TT_ORDER_GRADIENT) != is_gradient)
            continue;
        int64_t index = -1, age[2];
        tt_order_count seen;
        tt_point point;
        tt_status st = tt_order_look(f->run, f->of->file, site, f->of->point.step, 0, &seen);
        if (st < 0)
            return tt_fail(err, st, "%s", tt_status_text(st));
        if (seen.points == 0 || !find_age(f, site, seen.first_time, age) ||
            (latest[1].site >= 0 && !is_younger(age, latest[1].age)))
            continue;
        st = tt_run_seek(f->run, f->of->file, site, f->of->point.step, -1, TT_PRODUCT_STATS, &index, err);
        if (st == TT_OK && index >= 0)
            st = tt_run_point(f->run, f->of->file, site, index, &point, err);
        if (st < 0)
            return st;
        if (index < 0 || !is_finite(&point))
            continue;
        int slot = latest[0].site >= 0 && !is_younger(age, latest[0].age) ? 1 : 0;
        if (slot == 0)
            latest[1] = latest[0];
        memcpy(latest[slot].age, age, sizeof age);
        latest[slot].index = index;
        latest[slot].site = site;
    }
    for (int i = 0; i < 2; i++)
        if (latest[i].site >= 0)
            add_feed(f, TT_FEED_BEFORE, latest[i].site, latest[i].index);
    return TT_OK;
}

/* parameter/<module>.<its own name>, of the module that returned the value. */
static tt_status add_parameters(feeds *f, tt_error *err)
{
    static const char *const kinds[] = { "activation/", "activation_gradient/", "gradient/" };
    const char *name = tt_run_site_name(f->run, f->of->site), *module = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            module = name + strlen(kinds[i]);
    if (module == NULL)
        return TT_OK;
    bool is_gradient = tt_order_kind(name) == TT_ORDER_GRADIENT;
    size_t len = strlen(module), head = strlen("parameter/");
    const char *bracket = strchr(module, '[');
    if (bracket != NULL)
        len = (size_t)(bracket - module); /* one of several outputs */
    for (int32_t site = 0; site < tt_run_site_count(f->run); site++) {
        const char *other = tt_run_site_name(f->run, site);
        if (strncmp(other, "parameter/", head) != 0 || strncmp(other + head, module, len) != 0)
            continue;
        const char *rest = other + head + len;
        bool is_own = is_gradient ? *rest == '\0' : *rest == '.' && strchr(rest + 1, '.') == NULL;
        int64_t index = -1;
        tt_point point;
        if (!is_own)
            continue;
        tt_status st = tt_run_seek(f->run, f->of->file, site, f->of->point.step, -1, 0, &index, err);
        if (st == TT_OK && index >= 0)
            st = tt_run_point(f->run, f->of->file, site, index, &point, err);
        if (st < 0)
            return st;
        if (index >= 0 && is_finite(&point))
            add_feed(f, TT_FEED_PARAMETER, site, index);
    }
    return TT_OK;
}

tt_status tt_run_feeds(tt_run *run, const tt_nonfinite *of, tt_feed *out, size_t cap, size_t *count,
                       tt_error *err)
{
    feeds f = { .run = run, .of = of, .out = out, .cap = cap };
    tt_status st = TT_OK;
    if (of->site < 0)
        goto out;
    /* A parameter was made by its gradient, one step ago. */
    const char *name = tt_run_site_name(run, of->site);
    if (of->birth == TT_BIRTH_UPDATE && of->index > 0) {
        tt_buf gradient = { 0 };
        tt_point before;
        int64_t index = -1;
        st = tt_run_point(run, of->file, of->site, of->index - 1, &before, err);
        if (st == TT_OK && tt_buf_printf(&gradient, "gradient/%s", name + strlen("parameter/")) < 0)
            st = tt_fail(err, TT_ENOMEM, "%s", tt_status_text(TT_ENOMEM));
        int32_t site = st == TT_OK ? tt_run_find(run, gradient.data) : -1;
        if (site >= 0)
            st = tt_run_seek(run, of->file, site, before.step, -1, 0, &index, err);
        if (st == TT_OK && index >= 0)
            add_feed(&f, TT_FEED_BEFORE, site, index);
        tt_buf_free(&gradient);
    } else if (of->birth != TT_BIRTH_UPDATE) {
        st = add_before(&f, err);
    }
    if (st == TT_OK)
        st = add_parameters(&f, err);
    if (st == TT_OK && of->index > 0)
        add_feed(&f, TT_FEED_PREVIOUS, of->site, of->index - 1);
out:
    if (st == TT_OK)
        *count = f.count;
    return st;
}
