/* products.c -- the summaries of one tensor that a point may hold.
 * SPDX-License-Identifier: Apache-2.0 */
#include "tensor/products.h"

#include <stdlib.h>

static float *sketch_tokens(const tt_tensor *t)
{
    int64_t count = tt_sketch_tokens(t);
    float *tokens = count > 0 ? malloc((size_t)count * TT_SKETCH_BYTES) : NULL;
    if (tokens != NULL)
        tt_sketch_compute(t, tokens);
    return tokens;
}

void tensor_products_compute(const tt_tensor *t, uint32_t wanted, tensor_products *out)
{
    static const tt_sample_options few = { .max_vector = 32, .max_matrix = 8, .max_slices = 6 };
    out->has = wanted & (TT_PRODUCT_STATS | TT_PRODUCT_DIGEST);
    out->hist = NULL;
    out->sample = NULL;
    out->tokens = wanted & TT_PRODUCT_TOKENS ? sketch_tokens(t) : NULL;
    out->has |= out->tokens != NULL ? TT_PRODUCT_TOKENS : 0;
    if (wanted & TT_PRODUCT_STATS)
        tt_stats_compute(t, &out->stats);
    if (wanted & TT_PRODUCT_DIGEST)
        tt_digest_compute(t, &out->digest);
    if (wanted & TT_PRODUCT_HIST && tt_hist_create(&out->hist) == TT_OK) {
        tt_hist_add(out->hist, t);
        out->has |= TT_PRODUCT_HIST;
    }
    if (wanted & TT_PRODUCT_SAMPLE && tt_sample_create(t, &few, &out->sample, NULL) == TT_OK)
        out->has |= TT_PRODUCT_SAMPLE;
}

void tensor_products_free(tensor_products *products)
{
    tt_hist_free(products->hist);
    tt_sample_free(products->sample);
    free(products->tokens);
    products->hist = NULL;
    products->sample = NULL;
    products->tokens = NULL;
    products->has = 0;
}

void tensor_products_put(const tensor_products *products, uint32_t wanted, tt_event *event)
{
    uint32_t put = products->has & wanted;
    if (put & TT_PRODUCT_STATS)
        event->stats = &products->stats;
    if (put & TT_PRODUCT_DIGEST)
        event->digest = &products->digest;
    if (put & TT_PRODUCT_HIST)
        event->hist = products->hist;
    if (put & TT_PRODUCT_SAMPLE)
        event->sample = products->sample;
    if (put & TT_PRODUCT_TOKENS)
        event->tokens = products->tokens;
}
