/* findings.h -- what the rules found, as text.  For health, show, top and explain.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_CLI_FINDINGS_H
#define TT_CLI_FINDINGS_H

#include "tensortap_tools.h"

/* Prints the first findings, each on a line, and behind them what to do if wanted.  Returns the
 * number of lines. */
int tt_findings_print(const tt_findings *findings, size_t most, bool has_remedies);
/* Prints "not checked: no loss: divergence, loss-spike": a line for each reason. */
void tt_findings_print_unchecked(const tt_findings *findings);
/* Prints the verdict behind `used` characters of its line; returns the number of lines. */
int tt_findings_print_verdict(const tt_findings *findings, size_t used);
bool tt_findings_has(const tt_findings *findings, tt_severity severity); /* of this severity or worse */

#endif
