/* origin.c -- which value of a run is the first NaN or Inf that counts.
 *
 * Exists so that every answer names the same one.  Clocks of two hosts differ, so that files are compared
 * by what happened, not by when.
 * SPDX-License-Identifier: Apache-2.0 */
#include "report/origin.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Classes of torch, and of others that are called like them, whose results are never masks. */
static const char *const layers =
    "*Linear,Conv?d,ConvTranspose?d,Embedding,EmbeddingBag,*LayerNorm,*RMSNorm,"
    "BatchNorm?d,SyncBatchNorm,GroupNorm,InstanceNorm?d,LSTM,GRU,RNN,LSTMCell,"
    "GRUCell,RNNCell,Bilinear,MultiheadAttention,PReLU";

bool tt_value_is_masked(const char *name, const char *class_name, int64_t nan, int64_t posinf,
                        int64_t neginf)
{
    bool is_only_negative = neginf > 0 && nan == 0 && posinf == 0;
    bool is_output = tt_name_begins(name, "activation/");
    return is_only_negative && tt_order_kind(name) == TT_ORDER_FORWARD &&
           !(is_output && class_name != NULL && tt_glob_match(layers, class_name));
}

tt_badness tt_badness_of(const char *name, const char *class_name, int64_t nan, int64_t posinf,
                         int64_t neginf, bool is_skipped)
{
    return is_skipped                                                  ? TT_BAD_SKIPPED
           : tt_value_is_masked(name, class_name, nan, posinf, neginf) ? TT_BAD_MASKED
                                                                       : TT_BAD_FOR_CERTAIN;
}

static bool is_before(const tt_candidate *a, const tt_candidate *b)
{
    return b == NULL || tt_order_is_before(&a->when, &b->when);
}

/* The first one of a file; a number that the program logged gives way to the loss of its step, because most
 * often the number is the loss. */
static const tt_candidate *choose_in_file(const tt_candidate *all, size_t count, tt_badness badness)
{
    const tt_candidate *first = NULL, *loss = NULL;
    for (const tt_candidate *one = all; one < all + count; one++) {
        if (one->badness != badness)
            continue;
        first = is_before(one, first) ? one : first;
        if (one->when.kind == TT_ORDER_LOSS && !one->is_number)
            loss = is_before(one, loss) ? one : loss;
    }
    bool is_logged = first != NULL && first->is_number && loss != NULL;
    return is_logged && loss->when.step == first->when.step ? loss : first;
}

/* A -Inf that was not there before and comes right before a NaN is no mask: its cause. */
static const tt_candidate *find_cause(const tt_candidate *all, size_t count, const tt_candidate *of)
{
    const tt_candidate *cause = NULL;
    for (const tt_candidate *one = all; one < all + count; one++)
        if (one->badness == TT_BAD_MASKED && one->is_new && one->when.file == of->when.file &&
            one->when.step == of->when.step && one->when.round == of->when.round &&
            one->when.is_eval == of->when.is_eval && is_before(one, of) && is_before(one, cause))
            cause = one;
    return cause != NULL ? cause : of;
}

static const tt_candidate *choose(const tt_candidate *all, size_t count, tt_badness badness)
{
    const tt_candidate *first = NULL;
    for (size_t from = 0, to; from < count; from = to) {
        for (to = from + 1; to < count && all[to].when.file == all[from].when.file;)
            to++;
        const tt_candidate *one = choose_in_file(all + from, to - from, badness);
        first = one != NULL && is_before(one, first) ? one : first;
    }
    return first;
}

const tt_candidate *tt_origin_choose(const tt_candidate *all, size_t count)
{
    const tt_candidate *first = choose(all, count, TT_BAD_FOR_CERTAIN);
    return first != NULL ? find_cause(all, count, first) : choose(all, count, TT_BAD_SKIPPED);
}

/* ---- in words ---------------------------------------------------------------- */

tt_origin tt_origin_of(const tt_nonfinite *n, const char *name)
{
    const tt_point *p = &n->point;
    bool has_stats = (p->products & TT_PRODUCT_STATS) != 0;
    return (tt_origin){ .name = name,
                        .step = p->step,
                        .nan = has_stats ? p->stats.nan : isnan(p->scalar),
                        .inf = has_stats ? p->stats.posinf + p->stats.neginf : isinf(p->scalar),
                        .sites = n->reached,
                        .ranks = n->files,
                        .birth = n->birth,
                        .is_initial = n->birth == TT_BIRTH_UPDATE && n->index == 0,
                        .is_eval = p->phase == TT_PHASE_EVAL,
                        .is_skipped = p->is_skipped,
                        .is_number = !has_stats,
                        .is_half = has_stats && p->stats.dtype == TT_F16 };
}

tt_status tt_origin_say(const tt_origin *o, tt_buf *out)
{
    (void)tt_buf_printf(out, "%s: the first %s%s at step %" PRId64 "%s%s; %s", o->name,
                        o->nan > 0 && o->inf > 0 ? "NaN and Inf"
                        : o->nan > 0             ? "NaN"
                                                 : "Inf",
                        o->is_half && o->inf > 0 ? " (float16 ends at 65504)" : "", o->step,
                        o->is_eval ? ", in evaluation" : "",
                        o->is_skipped ? ", in a step that a scaler skipped" : "",
                        o->is_number    ? "a number that was logged"
                        : o->is_initial ? "born before the first step that was recorded"
                                        : tt_birth_phrase(o->birth));
    if (o->sites > 1)
        (void)tt_buf_printf(out, "; it reached %" PRId64 " sites", o->sites);
    if (o->ranks > 1)
        (void)tt_buf_printf(out, "%s %" PRId64 " ranks", o->sites > 1 ? " of" : "; it reached", o->ranks);
    return out->st;
}
