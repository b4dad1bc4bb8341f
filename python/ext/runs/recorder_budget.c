/* recorder_budget.c -- what watching costs, and how it is kept within its budget.
 *
 * One event in RECORDER_SAMPLES is timed.  Every quarter of a second the time
 * spent is held against the time that went by; if it is too much, the sites that
 * took most are recorded half as often, one after the other, until the sum fits.
 * A site that was thinned stays so.
 * SPDX-License-Identifier: Apache-2.0 */
#include "runs/recorder.h"

#include "base/array.h"
#include "tensortap_tools.h"

enum {
    LOOK_NS = 250000000,  /* how often the budget is looked at */
    LOOK_CHARGES = 32,    /* fewer timed events than this say little */
    TELL_NS = 1000000000, /* how often the cost is recorded */
    PATIENCE = 8,         /* looks without a step: the program has none */
    OUTLIER = 4,          /* times the usual */
    TRIFLE = 16,          /* this much cheaper than the dearest: not worth thinning */
    THINNED_MAX = 1 << 12,
    SHOWN = 6, /* sites that a note names */
};
static const double aim = 0.8; /* of the budget, so that it is not missed again at once */

runs_recorder_site *runs_recorder_site_at(runs_recorder *self, int32_t site)
{
    size_t known = self->site_cap;
    if (!base_array_grow(&self->site, &self->site_cap, (size_t)site + 1, sizeof *self->site))
        return NULL;
    for (size_t i = known; i < self->site_cap; i++)
        self->site[i] = (runs_recorder_site){ .step = -1 };
    return &self->site[site];
}

/* ---- thinning ------------------------------------------------------------ */

static int64_t since_look(const runs_recorder_site *site)
{
    return site->cost - site->cost_seen;
}

/* Halves the most expensive sites until `excess` is gone, each once: one bad moment
 * shall not silence a site.  cost_seen takes those that are done out of the search. */
static int32_t halve_most_expensive(runs_recorder *self, int64_t excess)
{
    int32_t changed = 0;
    int64_t dearest = 0;
    while (excess > 0) {
        runs_recorder_site *most = NULL;
        for (runs_recorder_site *at = self->site; at < self->site + self->site_cap; at++)
            if (at->thinned < THINNED_MAX && (most == NULL || since_look(at) > since_look(most)))
                most = at;
        if (most == NULL || since_look(most) <= dearest / TRIFLE)
            break; /* the rest is cheap: it would be silenced for nothing */
        if (dearest == 0)
            dearest = since_look(most);
        int64_t saved = since_look(most) - since_look(most) / 2;
        most->thinned = most->thinned == 0 ? 2 : most->thinned * 2;
        most->cost_seen = most->cost;
        excess -= saved;
        changed++;
    }
    return changed;
}

static void thin(runs_recorder *self, int64_t excess)
{
    tt_buf text = { 0 };
    int count = 0;
    if (halve_most_expensive(self, excess) == 0)
        return;
    for (int32_t i = 0; i < (int32_t)self->site_cap; i++) {
        uint32_t every = self->every * self->site[i].thinned;
        if (every == 0)
            continue;
        /* Step 0 is always wanted: this gives the products whatever the interval. */
        tt_recorder_set_plan(self->rec, i, tt_recorder_wants(self->rec, i, 0), every);
        if (count++ < SHOWN)
            tt_buf_printf(&text, "%s%.100s every %u steps",
                          count > 1 ? ", " : "budget: ", tt_recorder_site_name(self->rec, i), every);
    }
    if (count > SHOWN)
        tt_buf_printf(&text, ", and %d more", count - SHOWN);
    if (text.data != NULL)
        tt_recorder_note(self->rec, self->step, text.data);
    tt_buf_free(&text);
}

/* Says on the terminal that `tensortap run` thins the run; a program that records itself has a note in it. */
static void tell_disk(runs_recorder *self)
{
    tt_recorder_counts counts;
    tt_recorder_counts_get(self->rec, &counts);
    if (self->has_told_disk || counts.stride <= 1 || !self->is_by_command)
        return;
    self->has_told_disk = true;
    (void)runs_recorder_warn(
        self,
        "about %.2g GB per 100 000 steps; to stay within %.3g GB (--disk), tensors of "
        "one step in %lld are written from here on, and all steps around a NaN, a "
        "spike or an exception",
        (double)counts.step_bytes * 1e5 / 1e9, (double)self->disk / 1e9, (long long)counts.stride);
}

static void look(runs_recorder *self, int64_t now)
{
    int64_t wall = now - self->look_ns;
    bool is_enough = self->look_charges >= LOOK_CHARGES &&
                     (self->step != self->look_step || wall > PATIENCE * (int64_t)LOOK_NS);
    if (runs_recorder_tell_error(self) < 0)
        PyErr_WriteUnraisable((PyObject *)self);
    if (self->rec == NULL) /* whoever shows warnings may have closed it */
        return;
    tell_disk(self);
    if (now - self->cost_told_ns >= TELL_NS)
        runs_recorder_tell_cost(self);
    if (self->budget > 0 && !is_enough)
        return; /* the next look sees a longer time */
    double excess = (double)(self->cost_ns - self->look_cost) - self->budget * (double)wall;
    if (self->budget > 0 && self->is_warm && excess > 0)
        thin(self, (int64_t)(excess + (1 - aim) * self->budget * (double)wall) + 1);
    self->is_warm = true;
    self->look_ns = now;
    self->look_cost = self->cost_ns;
    self->look_step = self->step;
    self->look_charges = 0;
    for (size_t i = 0; i < self->site_cap; i++)
        self->site[i].cost_seen = self->site[i].cost;
}

void runs_recorder_spend(runs_recorder *self, int32_t site, int64_t ns)
{
    self->cost_ns += ns;
    self->look_charges++;
    runs_recorder_site *row = site >= 0 ? runs_recorder_site_at(self, site) : NULL;
    if (row != NULL) /* else the sum is right all the same */
        row->cost += ns;
    int64_t now = runs_clock_coarse();
    if (now - self->look_ns >= LOOK_NS && self->rec != NULL)
        look(self, now);
}

/* The time of RECORDER_SAMPLES events of which one was timed.  A thread that was put aside while it was
 * timed took long this once: the others took what they usually take. */
static int64_t extrapolate(int64_t *typical, int64_t ns)
{
    int64_t usual = ns < OUTLIER * *typical ? ns : OUTLIER * *typical;
    *typical = *typical == 0 ? ns : *typical + (usual - *typical) / 4;
    return ns + (RECORDER_SAMPLES - 1) * usual;
}

void runs_recorder_charge(runs_recorder *self, int32_t site, int64_t ns)
{
    runs_recorder_site *row = site >= 0 ? runs_recorder_site_at(self, site) : NULL;
    self->timed_ns += ns;
    runs_recorder_spend(self, site, extrapolate(row != NULL ? &row->typical : &self->typical, ns));
}

void runs_recorder_end_around(runs_recorder *self, runs_recorder_span span)
{
    if (span.is_inner)
        return;
    self->around = AROUND_NOTHING;
    if (span.start == 0)
        return;
    int64_t ns = runs_clock_fine() - span.start - (self->timed_ns - span.within);
    self->around_ns += extrapolate(&self->around_typical, ns > 0 ? ns : 0);
}

int64_t runs_recorder_cost(const runs_recorder *self)
{
    tt_recorder_counts counts = self->last;
    if (self->rec != NULL)
        tt_recorder_counts_get(self->rec, &counts);
    int64_t sum = self->cost_ns + self->around_ns + counts.writer_ns;
    return sum > 0 ? sum : 0;
}

/* ---- what it cost -------------------------------------------------------- */

void runs_recorder_tell_cost(runs_recorder *self)
{
    tt_recorder_counts counts;
    int32_t site;
    int64_t now = runs_clock_coarse(), step = self->step;
    if (!tt_recorder_has_room(self->rec, 1 << 10))
        return; /* what the program says goes first */
    tt_recorder_counts_get(self->rec, &counts);
    self->cost_told_ns = now;
    if (counts.events == 0 || now <= self->start_ns)
        return;
    if (counts.events == self->events_before && step > 0)
        step--; /* nothing has happened in this step: it shall not appear in the run */
    if (tt_recorder_site(self->rec, "tensortap/cost", &site, NULL) == TT_OK)
        tt_recorder_scalar(self->rec, site, step,
                           (double)runs_recorder_cost(self) / (double)(now - self->start_ns));
}

/* {name: number} of the sites that cost something, or were thinned. */
static PyObject *dict_of_sites(const runs_recorder *self, bool wants_costs)
{
    PyObject *dict = PyDict_New(); /* owned */
    for (int32_t i = 0; dict != NULL && self->rec != NULL && i < (int32_t)self->site_cap; i++) {
        const runs_recorder_site *site = &self->site[i];
        int64_t value = wants_costs ? site->cost : (int64_t)site->thinned * self->every;
        if (value != 0)
            binding_dict_add(&dict, PyUnicode_FromString(tt_recorder_site_name(self->rec, i)),
                             PyLong_FromLongLong(value));
    }
    return dict;
}

PyObject *runs_recorder_costs(PyObject *self, PyObject *Py_UNUSED(none))
{
    return dict_of_sites((runs_recorder *)self, true);
}

PyObject *runs_recorder_thinned(PyObject *self, PyObject *Py_UNUSED(none))
{
    return dict_of_sites((runs_recorder *)self, false);
}
