/* sites.h -- names of places where tensors appear, as small integers.
 *
 * For store and record.  A name is looked up once, under a lock; from then on
 * its integer finds the row without one.  Rows never move.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_SITE_SITES_H
#define TT_SITE_SITES_H

#include "tensortap_tools.h"

#include <stdatomic.h>

enum {
    TT_SITES_MAX = 1 << 18, /* more is a mistake: names made from step numbers, say */
    TT_SITE_NAME_MAX = 4096,
    TT_SITES_BYTES_MAX = 16 << 20, /* of all names */
};

typedef struct tt_site_row {
    const char *name; /* of the table */
    uint32_t len;
    _Atomic uint32_t products; /* its plan */
    _Atomic uint32_t every;    /* 0: never */
} tt_site_row;

/* Returns the products that this plan wants of a site of this name; 0: none. */
uint32_t tt_plan_products(const tt_plan *plan, const char *name);

typedef struct tt_sites tt_sites;

tt_status tt_sites_create(tt_sites **out);
void tt_sites_free(tt_sites *sites);
/* The number of a name, new or known.  A new one gets this plan (NULL: nothing is
 * wanted) before others see it.  TT_EINVAL: too many names, or too long. */
tt_status tt_sites_intern(tt_sites *sites, const char *name, size_t len, const tt_plan *plan,
                          int32_t *out);
int32_t tt_sites_find(const tt_sites *sites, const char *name, size_t len); /* -1: none such */
int32_t tt_sites_count(const tt_sites *sites);
tt_site_row *tt_sites_row(const tt_sites *sites, int32_t site); /* NULL: out of range */
/* Forgets all names; nobody else may be using the table. */
void tt_sites_clear(tt_sites *sites);
/* In a forked child: nobody holds the lock. */
void tt_sites_after_fork(tt_sites *sites);

#endif
