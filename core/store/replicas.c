/* replicas.c -- ranks that ought to hold the same, and do not.
 *
 * Exists because a replica that has drifted trains on, and its numbers look like the others'.  Every rank is
 * compared with one of its class, which costs little; only where one differs do all of them vote.
 * SPDX-License-Identifier: Apache-2.0 */
#include "store/replicas.h"

#include "store/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is compared of one point. */
typedef struct mark {
    int64_t step;
    uint32_t call;
    uint32_t index; /* of the point in its site and file */
    bool has_digest;
    uint64_t digest[2], sums;
} mark;

/* The points of one file. */
typedef struct member {
    int32_t file;
    uint64_t class; /* equal: they ought to hold the same; 0: nobody says so ... */
    int64_t since;  /* ... from this step on */
    uint64_t chain; /* of all its points; 0: not known */
    mark *marks;    /* owned; by step and call */
    size_t count, cap;
    bool is_read, is_done; /* done: compared */
} member;

typedef struct comparison {
    tt_run *run;
    int32_t site;
    member *members; /* owned; of each file */
    int32_t count;
} comparison;

static uint64_t mix(uint64_t into, uint64_t x)
{
    x = (into ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

/* ---- classes -------------------------------------------------------------------- */

/* Is it whole, or one of several equal parts?  Addends are neither. */
static bool has_replicas(const tt_placement *p)
{
    bool has_any = false;
    for (int32_t d = 0; d < p->mesh_ndim; d++) {
        if (p->on[d].spread == TT_SPREAD_PARTIAL)
            return false;
        has_any |= p->on[d].spread == TT_SPREAD_REPLICA;
    }
    return has_any;
}

/* Finds the class of each file by its latest placement; false: no two ought to be equal. */
static bool find_classes(comparison *c)
{
    bool has_any = false;
    for (int32_t f = 0; f < c->count; f++) {
        member *m = &c->members[f];
        const tt_index_site *row = tt_run_row(c->run, f, c->site);
        m->file = f;
        m->class = 0;
        m->count = 0;
        m->is_read = m->is_done = false;
        if (row == NULL || row->stored == 0 || c->run->taps[f]->child != 0)
            continue;
        const tt_placement *p =
            tt_run_placement(c->run, f, c->site, row->chunks[row->count - 1].last_step);
        bool is_known = p != NULL && has_replicas(p);
        uint64_t class =
            is_known ? tt_placement_class(p, tt_run_known_mesh(c->run, f, p->mesh), &is_known) : 0;
        m->class = is_known ? class : 0;
        m->since = p != NULL ? p->step : 0;
        m->chain = m->since <= row->chunks[0].first_step ? tt_index_chain(row) : 0;
        has_any |= m->class != 0;
    }
    return has_any;
}

/* ---- points ----------------------------------------------------------------------- */

static int by_step(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Puts the points in order; of those of one step and call the last counts: the program went back to it. */
static void settle(member *m)
{
    bool is_sorted = true;
    for (size_t i = 1; i < m->count; i++)
        is_sorted = is_sorted && by_step(&m->marks[i - 1], &m->marks[i]) < 0;
    if (!is_sorted)
        qsort(m->marks, m->count, sizeof *m->marks, by_step);
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        bool is_last = i + 1 == m->count || m->marks[i].step != m->marks[i + 1].step ||
                       m->marks[i].call != m->marks[i + 1].call;
        if (is_last)
            m->marks[kept++] = m->marks[i];
    }
    m->count = kept;
}

static tt_status read_member(const comparison *c, member *m)
{
    enum { PRODUCTS, STEP, CALL, LOW, HIGH, SUMS, COLUMNS = SUMS + 8 };
    static const tt_column columns[COLUMNS] = {
        TT_COLUMN_PRODUCTS, TT_COLUMN_STEP,   TT_COLUMN_CALL,  TT_COLUMN_DIGEST_LO, TT_COLUMN_DIGEST_HI,
        TT_COLUMN_COUNT,    TT_COLUMN_SUM,    TT_COLUMN_SUMSQ, TT_COLUMN_MIN,       TT_COLUMN_MAX,
        TT_COLUMN_NAN,      TT_COLUMN_POSINF, TT_COLUMN_NEGINF
    };
    const tt_tap *tap = c->run->taps[m->file];
    const tt_index_site *row = tt_run_row(c->run, m->file, c->site);
    tt_status st =
        m->is_read ? TT_OK : tt_grow(&m->marks, &m->cap, (size_t)row->stored, sizeof *m->marks);
    uint32_t index = 0;
    for (uint32_t k = 0; st == TT_OK && !m->is_read && k < row->count; k++) {
        const uint64_t *cells[COLUMNS];
        st = tt_run_columns(c->run, tap, row, &row->chunks[k], columns, COLUMNS, cells);
        for (uint32_t i = 0; st == TT_OK && i < row->chunks[k].n; i++) {
            mark *at = &m->marks[m->count];
            uint64_t products = cells[PRODUCTS][i];
            *at = (mark){ .step = (int64_t)cells[STEP][i],
                          .call = (uint32_t)cells[CALL][i],
                          .index = index + i,
                          .has_digest = (products & TT_PRODUCT_DIGEST) != 0,
                          .digest = { cells[LOW][i], cells[HIGH][i] } };
            for (size_t s = SUMS; s < COLUMNS; s++)
                at->sums = mix(at->sums, cells[s][i]);
            m->count += at->step >= m->since && (products & (TT_PRODUCT_STATS | TT_PRODUCT_DIGEST)) != 0;
        }
        index += row->chunks[k].n;
        st = st == TT_EFORMAT ? TT_OK : st; /* damaged: not compared */
    }
    if (st == TT_OK && !m->is_read)
        settle(m);
    m->is_read = st == TT_OK;
    return st;
}

static bool is_equal(const mark *a, const mark *b)
{
    return a->has_digest && b->has_digest ? memcmp(a->digest, b->digest, sizeof a->digest) == 0
                                          : a->sums == b->sums;
}

/* Moves to the next step and call that both have; false: there is none. */
static bool next_shared(const member *a, const member *b, size_t *i, size_t *k)
{
    while (*i < a->count && *k < b->count) {
        const mark *x = &a->marks[*i], *y = &b->marks[*k];
        if (x->step == y->step && x->call == y->call)
            return true;
        bool is_behind = x->step != y->step ? x->step < y->step : x->call < y->call;
        ++*(is_behind ? i : k);
    }
    return false;
}

/* The first point in which two members differ; NULL: none. */
static const mark *find_difference(const member *a, const member *b)
{
    for (size_t i = 0, k = 0; next_shared(a, b, &i, &k); i++, k++)
        if (!is_equal(&a->marks[i], &b->marks[k]))
            return &a->marks[i];
    return NULL;
}

static const mark *find_mark(const member *m, const mark *like)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const mark *at = &m->marks[middle];
        bool is_before = at->step != like->step ? at->step < like->step : at->call < like->call;
        *(is_before ? &low : &high) = is_before ? middle + 1 : middle;
    }
    bool is_there =
        low < m->count && m->marks[low].step == like->step && m->marks[low].call == like->call;
    return is_there ? &m->marks[low] : NULL;
}

/* ---- the vote ----------------------------------------------------------------------- */

/* How far a statistic of one is from that of the other, as a share of its size. */
static double distance(double a, double b, double size)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    double far = fabs(a - b) / fmax(fmax(fabs(a), fabs(b)), size);
    return isfinite(far) ? far : (double)INFINITY;
}

/* Finds the statistic in which two points deviate most. */
static void measure(const comparison *c, const member *usual, const member *odd, const mark *at,
                    tt_odd_replica *out)
{
    static const tt_field fields[] = { TT_FIELD_RMS, TT_FIELD_MEAN, TT_FIELD_MIN, TT_FIELD_MAX };
    const mark *marks[] = { find_mark(usual, at), find_mark(odd, at) };
    const int32_t files[] = { usual->file, odd->file };
    double values[2][4], worst = -1;
    for (size_t k = 0; k < 2; k++) {
        tt_point p;
        if (marks[k] == NULL || tt_run_point(c->run, files[k], c->site, marks[k]->index, &p, NULL) < 0)
            return;
        values[k][0] = tt_stats_rms(&p.stats);
        values[k][1] = p.stats.mean;
        values[k][2] = p.stats.min;
        values[k][3] = p.stats.max;
    }
    for (size_t i = 0; i < 4; i++) {
        double far = distance(values[0][i], values[1][i], i == 0 ? 0 : values[0][0]);
        if (far <= worst)
            continue;
        worst = far;
        out->field = fields[i];
        out->usual = values[0][i];
        out->odd = values[1][i];
    }
}

/* The member of a class whose value at this point most share, and how many these are. */
static const member *find_majority(const comparison *c, uint64_t class, const mark *at, int32_t *votes,
                                   int32_t *all)
{
    const member *candidate = NULL; /* Boyer and Moore: whoever has more than half is left */
    int32_t lead = 0;
    *votes = *all = 0;
    for (int32_t f = 0; f < c->count; f++) {
        const mark *one = c->members[f].class == class ? find_mark(&c->members[f], at) : NULL;
        if (one == NULL)
            continue;
        ++*all;
        if (lead == 0)
            candidate = &c->members[f];
        lead += is_equal(find_mark(candidate, at), one) ? 1 : -1;
    }
    for (int32_t f = 0; candidate != NULL && f < c->count; f++) {
        const mark *one = c->members[f].class == class ? find_mark(&c->members[f], at) : NULL;
        *votes += one != NULL && is_equal(find_mark(candidate, at), one);
    }
    return candidate;
}

/* Adds what the members of a class come to at the first point in which they differ. */
static tt_status add_odd(const comparison *c, uint64_t class, const mark *at, bool is_at_first,
                         tt_replicas *out)
{
    int32_t votes, all;
    const member *usual = find_majority(c, class, at, &votes, &all);
    tt_status st = tt_grow(&out->odd, &out->cap, out->count + 1, sizeof *out->odd);
    int32_t *ranks = st == TT_OK ? malloc((size_t)c->count * sizeof *ranks) : NULL;
    if (ranks == NULL)
        return TT_ENOMEM;
    tt_odd_replica odd = { .site = c->site,
                           .step = at->step,
                           .is_at_first = is_at_first,
                           .ranks = ranks,
                           .replicas = all,
                           .has_majority = 2 * votes > all,
                           .is_by_digest = at->has_digest };
    const member *first = NULL;
    for (int32_t f = 0; f < c->count; f++) {
        const member *m = &c->members[f];
        const mark *one = m->class == class ? find_mark(m, at) : NULL;
        bool is_odd = one != NULL && !is_equal(find_mark(usual, at), one);
        if (one == NULL || (odd.has_majority && !is_odd))
            continue;
        odd.ranks[odd.count++] = c->run->taps[f]->rank;
        first = first == NULL && is_odd ? m : first;
    }
    if (first != NULL)
        measure(c, usual, first, at, &odd);
    out->odd[out->count++] = odd;
    return TT_OK;
}

static bool is_earlier(const mark *a, const mark *b)
{
    return b == NULL || (a->step != b->step ? a->step < b->step : a->call < b->call);
}

/* Compares the members of the class of member `first` with it. */
static tt_status compare_class(comparison *c, int32_t first, tt_replicas *out)
{
    member *reference = &c->members[first];
    const mark *at = NULL;
    tt_status st = TT_OK;
    int32_t count = 1;
    for (int32_t f = first + 1; st == TT_OK && f < c->count; f++) {
        member *m = &c->members[f];
        if (m->class != reference->class)
            continue;
        count++;
        m->is_done = true;
        if (m->chain != 0 && m->chain == reference->chain)
            continue; /* the footers say that they are equal */
        st = read_member(c, reference);
        if (st == TT_OK)
            st = read_member(c, m);
        const mark *difference = st == TT_OK ? find_difference(reference, m) : NULL;
        at = difference != NULL && is_earlier(difference, at) ? difference : at;
    }
    out->compared += count > 1;
    for (int32_t f = first; st == TT_OK && at != NULL && f < c->count; f++)
        if (c->members[f].class == reference->class)
            st = read_member(c, &c->members[f]); /* all of them vote */
    if (st == TT_OK && at != NULL)
        st = add_odd(c, reference->class, at, at == &reference->marks[0], out);
    return st;
}

static bool is_wanted(const char *name)
{
    static const char *const kinds[] = { "parameter/", "gradient/", "buffer/" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

tt_status tt_replicas_find(tt_run *run, tt_replicas *out)
{
    *out = (tt_replicas){ 0 };
    comparison c = { .run = run, .count = run->count };
    c.members = calloc((size_t)run->count + 1, sizeof *c.members);
    tt_status st = c.members != NULL ? TT_OK : TT_ENOMEM;
    for (c.site = 0; st == TT_OK && c.site < tt_run_site_count(run); c.site++) {
        if (!is_wanted(tt_run_site_name(run, c.site)) || !find_classes(&c))
            continue;
        for (int32_t f = 0; st == TT_OK && f < c.count; f++)
            if (c.members[f].class != 0 && !c.members[f].is_done)
                st = compare_class(&c, f, out);
    }
    for (int32_t f = 0; c.members != NULL && f < c.count; f++)
        free(c.members[f].marks);
    free(c.members);
    return st;
}

void tt_replicas_free(tt_replicas *replicas)
{
    for (size_t i = 0; i < replicas->count; i++)
        free(replicas->odd[i].ranks);
    free(replicas->odd);
    *replicas = (tt_replicas){ 0 };
}
