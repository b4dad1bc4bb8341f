/* rule.h -- what a rule sees, and how it says what it found.
 *
 * A rule is one file that begins with TT_RULE, and its name in TT_RULES.  Its function find looks at
 * the courses of a history, adds those that show the fault to the case, and says a sentence.
 * It may be called again and again while a run is written: what it says must be certain.
 * For health only.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_HEALTH_RULE_H
#define TT_HEALTH_RULE_H

#include "health/history.h"
#include "report/answer.h"
#include "store/replicas.h"

/* In the order of the report, within a severity: causes before what follows from them. */
#define TT_RULES(X)             \
    X(nonfinite)                \
    X(scaler_skipping)          \
    X(half_overflow)            \
    X(half_underflow)           \
    X(learning_rate)            \
    X(not_zeroed)               \
    X(clipping)                 \
    X(weight_decay)             \
    X(not_optimized)            \
    X(training_in_eval_mode)    \
    X(evaluation_in_train_mode) \
    X(evaluation_graphs)        \
    X(labels)                   \
    X(loss_input)               \
    X(loss_near_zero)           \
    X(padding)                  \
    X(repeated_batch)           \
    X(same_sample)              \
    X(input_scale)              \
    X(mostly_zero)              \
    X(norm_of_one)              \
    X(zero_factors)             \
    X(softmax_dimension)        \
    X(dead_units)               \
    X(saturation)               \
    X(attention_entropy)        \
    X(gradient_missing)         \
    X(weights_unchanged)        \
    X(update_ratio)             \
    X(growth)                   \
    X(gradient_exploding)       \
    X(gradient_vanishing)       \
    X(divergence)               \
    X(loss_spike)               \
    X(loss_stuck)               \
    X(ranks_differ)             \
    X(rank_stands_out)          \
    X(unlike_baseline)

#define X(name) extern const tt_rule tt_rule_##name;
TT_RULES(X)
#undef X

/* Says what a rule is: id, severity of most findings, likelihood of its warnings, which data it looks at, what it
 * finds in one sentence, what to do, and the ids of rules whose later findings follow from this one, or NULL. */
#define TT_RULE(name, id_, severity_, likelihood_, needs_, summary_, remedy_, hides_) \
    static void find(tt_case *c);                                                     \
    const tt_rule tt_rule_##name = { .id = (id_),                                     \
                                     .severity = TT_SEVERITY_##severity_,             \
                                     .likelihood = TT_LIKELIHOOD_##likelihood_,       \
                                     .needs = (needs_),                               \
                                     .summary = (summary_),                           \
                                     .remedy = (remedy_),                             \
                                     .hides = (hides_),                               \
                                     .find = find };

/* What the rules look at. */
typedef struct tt_evidence {
    const tt_history *histories; /* of each file; of joined ranks one */
    int32_t history_count;
    const tt_rank_loss *losses; /* of joined ranks: that of each */
    int32_t loss_count;
    int32_t rank_count; /* files that the histories are of */
    int32_t origin_rank;
    const tt_replicas *replicas; /* NULL: the run does not say which ranks are */
    const tt_nonfinite *origin;  /* the first NaN or Inf of the run; NULL: it is being written */
    const tt_history *baseline;  /* a good run; NULL: none */
    const tt_findings *usual;    /* ... and what was found in it */
} tt_evidence;

typedef struct tt_case {
    const tt_evidence *evidence;
    const tt_history *history;  /* of one file of it, or of all ranks joined */
    struct tt_draft *draft;     /* what is found goes there */
    const tt_course **suspects; /* owned; of the finding that is being made */
    size_t suspect_count, suspect_cap;
    const tt_rule *rule;
    tt_answer found;      /* the finding that is being made: kind, rule, steps of the suspects, numbers */
    bool is_of_run;       /* it is about the whole run, whatever its suspects */
    const int32_t *ranks; /* that the finding is about; NULL: that of the history */
    size_t rank_count;
    /* Of the finding that is being made; NULL: those of the rule.  One that hides more stands above others. */
    const char *remedy, *hides;
    tt_likelihood likelihood; /* of a warning; 0: that of the rule.  An error is certain */
    bool has_data;            /* tt_case_next has seen a course of the kind, or the rule says so */
    tt_status st;
} tt_case;

/* Returns the course of this kind that follows, or the first one after NULL; NULL: no more. */
const tt_course *tt_case_next(tt_case *c, tt_course_kind kind, const tt_course *after);
/* The same of losses: what backward() was called on; without one, a number that was logged as "loss". */
const tt_course *tt_case_next_loss(tt_case *c, const tt_course *after);
bool tt_course_is_logged_loss(const tt_course *course);
#define TT_EACH_COURSE(c, course) \
    for (const tt_course *course = NULL; (course = tt_history_next((c)->history, course)) != NULL;)
#define TT_EACH(c, course, kind) \
    for (const tt_course *course = NULL; (course = tt_case_next(c, TT_COURSE_##kind, course)) != NULL;)
#define TT_EACH_LOSS(c, course) \
    for (const tt_course *course = NULL; (course = tt_case_next_loss(c, course)) != NULL;)
/* Does the case have the first of several files?  Then a rule that compares ranks runs. */
static inline bool tt_case_is_first(const tt_case *c)
{
    return c->history == c->evidence->histories;
}
/* Are its tensors whole, put together from those of all ranks? */
static inline bool tt_case_is_joined(const tt_case *c)
{
    return c->history->rank < 0 && c->evidence->rank_count > 1;
}
void tt_case_add(tt_case *c, const tt_course *course);
void tt_case_number(tt_case *c, const char *name, double value);
/* Says which ranks the finding is about; they are read when it is said. */
void tt_case_ranks(tt_case *c, const int32_t *ranks, size_t count);
/* Sets the steps that the finding is about; else they are those of the courses that were added. */
void tt_case_steps(tt_case *c, int64_t first, int64_t last);
/* Makes a finding of the courses and numbers that were added; nothing if there is no course, unless is_of_run.
 * %s in the format may be tt_case_place. */
void tt_case_say(tt_case *c, tt_severity severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The courses that were added, in a few words: "backbone (4 parameters)". */
const char *tt_case_place(tt_case *c);
/* The same with their kind: "the gradient of fc.weight", "parameter fc.weight". */
const char *tt_case_subject(tt_case *c);
/* A number in about four digits; lives as long as the finding. */
const char *tt_case_text(tt_case *c, double x);

/* printf into memory that lives as long as the finding. */
const char *tt_case_join(tt_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The weight of a layer, not a bias or a scale: its gradient says how much arrives. */
static inline bool tt_course_is_weight(const tt_course *course)
{
    return course->ndim >= 2;
}
/* Is it one of these classes?  "*Norm*,Tanh" */
static inline bool tt_course_is_of(const tt_course *course, const char *classes)
{
    return course->class_name != NULL && tt_glob_match(classes, course->class_name);
}
/* The median of the medians of all weights of this kind; NaN: fewer than three. */
double tt_case_typical(tt_case *c, tt_course_kind kind);
bool tt_case_is_optimized(const tt_case *c, const tt_course *course);
/* A bias alone says nothing: it may cancel in the loss.  Returns the gradient of the weight beside it;
 * NULL: this is no bias, or nothing is known of its weight. */
const tt_course *tt_case_beside(const tt_case *c, const tt_course *bias);
bool tt_course_is_bias(const tt_course *course);
/* The largest learning rate at a step; NaN: there is none. */
double tt_case_rate(const tt_case *c, int64_t step);
/* Is the learning rate neither warming up nor almost over?  Then updates have their usual size. */
bool tt_case_is_rate_settled(const tt_case *c);

/* Says what the findings that were asked for come to: sets verdict and is_healthy, and notes which rules were not
 * checked.  stopped: the exception that ended the program; NULL: none. */
tt_status tt_findings_judge(tt_findings *findings, const char *stopped);
/* Runs all rules. */
tt_status tt_findings_make(const tt_evidence *evidence, tt_findings **out);

/* modes.c: which modules of a model differ between training and evaluation. */
/* "it has dropout"; NULL: the mode makes no difference to the model at this path. */
const char *tt_modes_that_matter(tt_case *c, const char *path);
/* Says which parts of the model were in training, or in evaluation, while the model was not. */
void tt_modes_find_parts(tt_case *c, bool in_training);

/* Parameters whose missing gradient has a rule of its own (norm_of_one.c, zero_factors.c). */
bool tt_norm_is_of_one(const tt_case *c, const tt_course *weight);
bool tt_factor_is_zero(const tt_case *c, const tt_course *weight);

#endif
