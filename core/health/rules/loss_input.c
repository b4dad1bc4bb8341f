/* loss_input.c -- a loss that is given what it computes itself, or predictions that do not stand beside their labels.
 *
 * The graph next to the loss says so: a softmax right before a cross entropy, which makes a log_softmax of its
 * own; a difference of N predictions and N labels that has N x N elements.  It trains, slowly, and never reaches a small
 * loss.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

TT_RULE(loss_input, "loss-input", ERROR, CERTAIN, /* looks at */ "a loss",
        "The loss is given probabilities where it takes logits, normalises over the batch, or compares "
        "each prediction with all labels.",
        /* what to do */
        "give the loss the output of the last layer, without softmax or sigmoid",
        /* hides */ "loss-stuck")

static void find(tt_case *c)
{
    c->has_data = c->history->count > 0;
    TT_EACH(c, made, LABELS) {
        const tt_course *loss = tt_history_of(c->history, made, TT_COURSE_LOSS);
        int by = (int)made->latest;
        if (loss == NULL || by < TT_LOSS_OF_PROBABILITIES || by > TT_LOSS_BROADCAST)
            continue;
        tt_case_add(c, loss);
        tt_case_steps(c, made->first_step, made->last_step);
        if (by == TT_LOSS_OVER_BATCH)
            c->remedy = "log_softmax and nll_loss take the classes in dimension 1: use dim=1 or dim=-1";
        if (by == TT_LOSS_BROADCAST) {
            c->remedy = "give both the same shape: prediction.squeeze(-1), or label.unsqueeze(-1)";
            c->likelihood = TT_LIKELIHOOD_LIKELY; /* somebody may want all pairs */
            tt_case_say(
                c, TT_SEVERITY_WARNING,
                "%s compares the prediction for each sample with the labels of all samples: shapes "
                "[N, 1] and [N] are broadcast to [N, N]",
                loss->name);
            continue;
        }
        tt_case_say(
            c, TT_SEVERITY_ERROR,
            by == TT_LOSS_OF_PROBABILITIES
                ? "%s is a cross entropy of probabilities: a softmax comes right before it, and it "
                  "makes a log_softmax of its own"
            : by == TT_LOSS_OF_SIGMOID
                ? "%s is a binary cross entropy with logits, of the output of a sigmoid: it "
                  "applies a sigmoid of its own"
                : "%s is computed from a log_softmax over the batch (dim=0), not over the classes",
            loss->name);
    }
}
