/* findings.h -- answers as text: what reports come to.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_FINDINGS_H
#define TT_CLI_FINDINGS_H

#include "tensortap_tools.h"

tt_mood tt_severity_mood(tt_severity severity);

/* How much of an answer is printed. */
typedef enum tt_extent {
    TT_EXTENT_SENTENCE,
    TT_EXTENT_DETAIL, /* its lines, too ... */
    TT_EXTENT_ALL,    /* ... what to do, and the commands that show more */
} tt_extent;

/* Lays an answer out on the screen, for every command; returns the number of lines. */
int tt_answer_print(const tt_answer *answer, tt_extent extent);
int tt_answer_print_detail(const tt_answer *answer, int indent); /* a line each */
/* Prints the commands of an answer, a line each, behind so many spaces. */
int tt_answer_print_next(const tt_answer *answer, int indent);
/* Prints the verdict behind `used` characters of its line; returns the number of lines. */
int tt_findings_print_verdict(const tt_findings *findings, size_t used);
bool tt_findings_has(const tt_findings *findings, tt_severity severity); /* of this severity or worse */

#endif
