/* answer.h -- how reports and rules make answers.  For report, health and page.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_REPORT_ANSWER_H
#define TT_REPORT_ANSWER_H

#include "tensortap_tools.h"

/* An answer without sites, steps and ranks; fill in the rest, and put it among the others. */
#define TT_ANSWER(kind_, severity_, ...)               \
    ((tt_answer){ .kind = TT_ANSWER_##kind_,           \
                  .severity = TT_SEVERITY_##severity_, \
                  .first_step = -1,                    \
                  .last_step = -1,                     \
                  .call = -1,                          \
                  __VA_ARGS__ })

void tt_answers_put(tt_answers *answers, const tt_answer *answer);
/* Memory that lives as long as the answers; NULL, and a status, if there is none. */
void *tt_answers_alloc(tt_answers *answers, size_t bytes);
/* printf into such memory; "" if there is none. */
const char *tt_answers_text(tt_answers *answers, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same of text that is not a format, and of a buffer, which is freed; a failure of it is one of the answers. */
const char *tt_answers_keep(tt_answers *answers, const char *text);
const char *tt_answers_take(tt_answers *answers, tt_buf *text);
/* Text as one word of a shell. */
const char *tt_answers_word(tt_answers *answers, const char *text);
/* Says that the answer is about this site alone, which is its place. */
void tt_answers_set_site(tt_answers *answers, tt_answer *of, const char *name, int32_t site);
void tt_answers_set_ranks(tt_answers *answers, tt_answer *of, const int32_t *ranks, size_t count);
void tt_answer_number(tt_answer *of, const char *name, double value);
/* Adds a command, unless there are enough. */
void tt_answers_next(tt_answers *answers, tt_answer *of, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* How commands call a run: path, or if that is NULL its folder; as a word of a shell. */
const char *tt_answers_run(tt_answers *answers, const tt_run *run, const char *path);
/* "rank 37 of 512, host n04, dp 4, tp 5", as far as its file says so; "": nothing, or the run has one
 * rank. */
const char *tt_answers_position(tt_answers *answers, const tt_run *run, int32_t rank);
/* Has the run a black box, and of which step is the first? */
bool tt_answers_find_blackbox(tt_answers *answers, const tt_run *run, int64_t *step);

/* nan.c: fills in the origin: sites, steps, ranks, numbers, feeds, words and commands. */
tt_status tt_origin_answer(tt_run *run, const tt_nonfinite *n, const char *path, tt_answers *among,
                           tt_answer *out, tt_error *err);
/* Adds that all is finite, if it is, and what was not counted. */
void tt_origin_rest(const tt_run *run, const tt_nonfinite *n, tt_answers *out);
/* ending.c: adds that something is damaged, if it is. */
void tt_damage_answer(const tt_run *run, const char *path, int64_t unread, tt_answers *out);
/* description.c: appends one line about a point, as tt.show prints it. */
tt_status tt_point_line(const tt_point *point, tt_buf *out);

#endif
