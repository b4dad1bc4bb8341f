/* plan.c -- which products of a site are wanted, and how often.
 *
 * Exists so that patterns are matched once for each site; afterwards the answer
 * is two integers in the site's row.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensortap.h"

enum {
    EVERY_PRODUCT = TT_PRODUCT_SCALAR | TT_PRODUCT_STATS | TT_PRODUCT_DIGEST | TT_PRODUCT_HIST |
                    TT_PRODUCT_SAMPLE | TT_PRODUCT_VALUE
};

uint32_t tt_plan_products(const tt_plan *plan, const char *name)
{
    if (plan->only != NULL && !tt_glob_match(plan->only, name))
        return 0;
    if (plan->exclude != NULL && tt_glob_match(plan->exclude, name))
        return 0;
    return plan->products != 0 ? plan->products : (uint32_t)EVERY_PRODUCT;
}
