/* plan.c -- which products of a site are wanted, and how often; products as people write them.
 *
 * Exists so that patterns are matched once for each site; afterwards the answer
 * is two integers in the site's row.
 * SPDX-License-Identifier: Apache-2.0 */
#include "site/sites.h"
#include "tensortap_tools.h"

#include <string.h>

enum {
    EVERY_PRODUCT = TT_PRODUCT_SCALAR | TT_PRODUCT_STATS | TT_PRODUCT_DIGEST | TT_PRODUCT_HIST |
                    TT_PRODUCT_SAMPLE | TT_PRODUCT_VALUE | TT_PRODUCT_TOKENS
};

uint32_t tt_plan_products(const tt_plan *plan, const char *name)
{
    if (plan->only != NULL && !tt_glob_match(plan->only, name))
        return 0;
    if (plan->exclude != NULL && tt_glob_match(plan->exclude, name))
        return 0;
    return plan->products != 0 ? plan->products : (uint32_t)EVERY_PRODUCT;
}

static uint32_t product_of(const char *word, size_t len)
{
    static const struct {
        const char *name;
        uint32_t product;
    } words[] = { { "stats", TT_PRODUCT_STATS },   { "hist", TT_PRODUCT_HIST },
                  { "digest", TT_PRODUCT_DIGEST }, { "sample", TT_PRODUCT_SAMPLE },
                  { "value", TT_PRODUCT_VALUE },   { "placed", TT_PRODUCT_PLACED },
                  { "tokens", TT_PRODUCT_TOKENS } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].name) == len && memcmp(words[i].name, word, len) == 0)
            return words[i].product;
    }
    return 0;
}

tt_status tt_products_parse(const char *text, uint32_t *out, tt_error *err)
{
    uint32_t products = 0;
    for (const char *rest = text;; rest++) { /* past a comma or a bar */
        rest += strspn(rest, " ");
        size_t len = strcspn(rest, ",|"), end = len;
        while (end > 0 && rest[end - 1] == ' ')
            end--;
        uint32_t product = product_of(rest, end);
        if (product == 0)
            return tt_fail(err, TT_EINVAL,
                           "keep must be 'stats', 'hist', 'digest', 'sample', 'value', 'tokens', "
                           "'placed' or several "
                           "('stats,value'), not '%.*s'",
                           (int)(end < 80 ? end : 80), rest);
        products |= product;
        rest += len;
        if (*rest == '\0')
            break;
    }
    *out = products;
    return TT_OK;
}
