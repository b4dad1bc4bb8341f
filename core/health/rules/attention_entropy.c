/* attention_entropy.c -- attention that looks at one position only.
 *
 * One sharp head is usual; a layer all of whose heads became sharp does not learn any more.
 * SPDX-License-Identifier: Apache-2.0 */
#include "health/rule.h"

#include <string.h>

TT_RULE(attention_entropy, "attention-entropy", WARNING, LIKELY, /* looks at */ "attention_entropy/*",
        "The attention of every head of a layer has collapsed to single positions.",
        /* what to do */
        "lower the learning rate or warm it up longer, and normalise queries and keys",
        /* hides */ NULL)

static const double COLLAPSED = 0.05; /* of the entropy at first */
static const double LEAST = 0.1;      /* nats at first; less was never spread out */

static bool has_collapsed(const tt_course *head)
{
    return head->points >= 2 * TT_COURSE_WARM && head->early > LEAST &&
           tt_course_median(head) < COLLAPSED * head->early;
}

/* "blocks.0.attn.head_3": the length without the head. */
static size_t layer_len(const tt_course *head)
{
    const char *dot = strrchr(head->tail, '.');
    return dot != NULL ? (size_t)(dot - head->tail) : strlen(head->tail);
}

static bool is_of_layer(const tt_course *head, const tt_course *other)
{
    size_t len = layer_len(head);
    return other != NULL && layer_len(other) == len && memcmp(head->tail, other->tail, len) == 0;
}

static bool has_attention(const tt_history *h)
{
    for (int32_t i = 0; i < tt_sites_count(h->names); i++)
        if (h->subjects[i].class_name != NULL && tt_glob_match("*Attention*", h->subjects[i].class_name))
            return true;
    return false;
}

static void find(tt_case *c)
{
    double now = 0, early = 0;
    const tt_course *head = tt_case_next(c, TT_COURSE_ATTENTION, NULL);
    while (head != NULL) { /* a layer at a time: its heads follow each other */
        const tt_course *layer = head;
        bool is_whole = true;
        for (; is_of_layer(layer, head); head = tt_case_next(c, TT_COURSE_ATTENTION, head))
            is_whole = is_whole && has_collapsed(head);
        for (const tt_course *one = layer; is_whole && one != head;
             one = tt_case_next(c, TT_COURSE_ATTENTION, one)) {
            now = tt_course_median(one) > now ? tt_course_median(one) : now;
            early = one->early > early ? one->early : early;
            tt_case_add(c, one);
        }
    }
    c->has_data = c->has_data || !has_attention(c->history); /* nobody misses it elsewhere */
    tt_case_number(c, "entropy", now);
    tt_case_number(c, "at_first", early);
    tt_case_say(c, TT_SEVERITY_WARNING,
                "%s: every head looks at one position: the entropy of its attention is %s, at first it "
                "was %s",
                tt_case_place(c), tt_case_text(c, now), tt_case_text(c, early));
}
