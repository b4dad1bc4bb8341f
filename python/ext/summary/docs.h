/* docs.h -- the docstrings of the functions and classes that users see.
 *
 * In Google's form; tests/python/test_docstrings.py runs the examples.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SUMMARY_DOCS_H
#define SUMMARY_DOCS_H

#define SUMMARY_DOC_TENSOR \
    "    t: A torch.Tensor, a NumPy array, or anything with a buffer or `__dlpack__`.\n"

#define SUMMARY_DOC_GIL                                                                        \
    "    release_gil: Release the GIL while computing. Nobody may change or free the memory\n" \
    "        meanwhile.\n"

#define SUMMARY_DOC_RAISES \
    "    TypeError: It is not a tensor, or one that cannot be read; the message says why.\n"

#define SUMMARY_DOC_STATS                                                                            \
    "Compute counts, range, moments and norms of the elements of a tensor, in one pass.\n\n"         \
    "Args:\n" SUMMARY_DOC_TENSOR "    nan_policy: \"omit\" counts NaN and Inf and leaves them out; " \
    "\"propagate\" lets them into the\n"                                                             \
    "        results, as torch does.\n" SUMMARY_DOC_GIL "\n"                                         \
    "Returns:\n"                                                                                     \
    "    A Stats.\n\n"                                                                               \
    "Raises:\n" SUMMARY_DOC_RAISES "\n"                                                              \
    "Example:\n"                                                                                     \
    "    >>> import numpy as np, tensortap as tt\n"                                                  \
    "    >>> tt.stats(np.array([1.0, np.nan, 3.0])).mean\n"                                          \
    "    2.0"

#define SUMMARY_DOC_HISTOGRAM                                       \
    "Count the elements of a tensor in fixed logarithmic bins.\n\n" \
    "Args:\n" SUMMARY_DOC_TENSOR SUMMARY_DOC_GIL "\n"               \
    "Returns:\n"                                                    \
    "    A Histogram.\n\n"                                          \
    "Raises:\n" SUMMARY_DOC_RAISES "\n"                             \
    "Example:\n"                                                    \
    "    >>> import numpy as np, tensortap as tt\n"                 \
    "    >>> tt.histogram(np.array([1.0, 0.0, 2.0])).zeros\n"       \
    "    1"

#define SUMMARY_DOC_DIGEST                                                           \
    "Compute a 128-bit hash of shape, type and elements; strides do not matter.\n\n" \
    "Args:\n" SUMMARY_DOC_TENSOR SUMMARY_DOC_GIL "\n"                                \
    "Returns:\n"                                                                     \
    "    A Digest.\n\n"                                                              \
    "Raises:\n" SUMMARY_DOC_RAISES "\n"                                              \
    "Example:\n"                                                                     \
    "    >>> import numpy as np, tensortap as tt\n"                                  \
    "    >>> x = np.arange(6.0).reshape(2, 3)\n"                                     \
    "    >>> tt.digest(x.T) == tt.digest(x.T.copy())\n"                              \
    "    True"

#define SUMMARY_DOC_COMPARE                                                                             \
    "Compare two tensors of the same shape.\n\n"                                                        \
    "Args:\n"                                                                                           \
    "    a: A torch.Tensor, a NumPy array, or anything with a buffer or `__dlpack__`.\n"                \
    "    b: Another one.\n"                                                                             \
    "    rtol: Elements are close if |a - b| <= atol + rtol * |b|.\n"                                   \
    "    atol: See *rtol*.\n"                                                                           \
    "    equal_nan: NaN equals NaN.\n"                                                                  \
    "    ulp: Count the distances in units in the last place, too (`ulp_hist`).\n" SUMMARY_DOC_GIL "\n" \
    "Returns:\n"                                                                                        \
    "    A Compare.\n\n"                                                                                \
    "Raises:\n"                                                                                         \
    "    ValueError: The shapes differ.\n"                                                              \
    "    TypeError: One is not a tensor, or one that cannot be read; the message says why.\n\n"         \
    "Example:\n"                                                                                        \
    "    >>> import numpy as np, tensortap as tt\n"                                                     \
    "    >>> tt.compare(np.array([1.0, 2.0]), np.array([1.0, 2.5])).max_abs\n"                          \
    "    0.5"

#define SUMMARY_DOC_SAMPLE                                                      \
    "Pick a few elements that represent a tensor, as tables.\n\n"               \
    "Args:\n" SUMMARY_DOC_TENSOR "    max_vector: Most elements of a vector.\n" \
    "    max_matrix: Most rows and columns of a matrix.\n"                      \
    "    max_slices: Most matrices of a larger tensor.\n\n"                     \
    "Returns:\n"                                                                \
    "    A Sample.\n\n"                                                         \
    "Raises:\n" SUMMARY_DOC_RAISES "\n"                                         \
    "Example:\n"                                                                \
    "    >>> import numpy as np, tensortap as tt\n"                             \
    "    >>> tt.sample(np.arange(3.0)).slices[0].data\n"                        \
    "    [[0.0, 1.0, 2.0]]"

#define SUMMARY_DOC_ATTENTION                                                                         \
    "Compute entropy, largest logit and sink of softmax(q k^T) for each head and query.\n\n"          \
    "Args:\n"                                                                                         \
    "    q: Queries: a tensor of shape (..., heads, length, head_dim).\n"                             \
    "    k: Keys, of the same shape but for the length.\n"                                            \
    "    scale: Factor of the logits. Defaults to 1 / sqrt(head_dim).\n"                              \
    "    is_causal: A query sees only the keys up to its own position.\n"                             \
    "    mask: Added to the logits, or, if boolean, True where a query sees a key.\n" SUMMARY_DOC_GIL \
    "\n"                                                                                              \
    "Returns:\n"                                                                                      \
    "    An Attention.\n\n"                                                                           \
    "Raises:\n"                                                                                       \
    "    ValueError: The shapes do not fit.\n"                                                        \
    "    TypeError: One is not a tensor, or one that cannot be read; the message says why.\n\n"       \
    "Example:\n"                                                                                      \
    "    >>> import numpy as np, tensortap as tt\n"                                                   \
    "    >>> q = np.zeros((1, 2, 4), np.float32)  # heads, length, head_dim\n"                        \
    "    >>> tt.attention(q, q).sink.tolist()\n"                                                      \
    "    [[0.5, 0.5]]"

#define SUMMARY_DOC_STATS_TYPE                                                              \
    "Counts, range, moments and norms of the elements of a tensor; `stats` returns it.\n\n" \
    "Example:\n"                                                                            \
    "    >>> import numpy as np, tensortap as tt\n"                                         \
    "    >>> s = tt.stats(np.array([1.0, 3.0]))\n"                                          \
    "    >>> s.min, s.max, s.mean\n"                                                        \
    "    (1.0, 3.0, 2.0)"

#define SUMMARY_DOC_HISTOGRAM_TYPE                                                     \
    "Counts of a tensor's elements in fixed logarithmic bins; `a + b` merges two.\n\n" \
    "Example:\n"                                                                       \
    "    >>> import numpy as np, tensortap as tt\n"                                    \
    "    >>> h = tt.histogram(np.ones(3)) + tt.histogram(np.zeros(2))\n"               \
    "    >>> h.count, h.zeros\n"                                                       \
    "    (5, 2)"

#define SUMMARY_DOC_DIGEST_TYPE                                                       \
    "A 128-bit hash of a tensor's shape, type and elements; `digest` returns it.\n\n" \
    "Args:\n"                                                                         \
    "    hex: 32 hexadecimal digits, as `hex()` returns them.\n\n"                    \
    "Example:\n"                                                                      \
    "    >>> import tensortap as tt\n"                                                \
    "    >>> tt.Digest(\"0\" * 32).hex() == \"0\" * 32\n"                             \
    "    True"

#define SUMMARY_DOC_COMPARE_TYPE                                          \
    "How two tensors of the same shape differ; `compare` returns it.\n\n" \
    "Example:\n"                                                          \
    "    >>> import numpy as np, tensortap as tt\n"                       \
    "    >>> tt.compare(np.ones(2), np.ones(2)).equal\n"                  \
    "    True"

#define SUMMARY_DOC_SAMPLE_TYPE                                                   \
    "A few elements that represent a tensor, as tables; `sample` returns it.\n\n" \
    "Example:\n"                                                                  \
    "    >>> import numpy as np, tensortap as tt\n"                               \
    "    >>> tt.sample(np.ones((100, 100))).partial\n"                            \
    "    True"

#define SUMMARY_DOC_SLICE_TYPE                                      \
    "A table of elements of a tensor: label, rows, cols, data.\n\n" \
    "Example:\n"                                                    \
    "    >>> import numpy as np, tensortap as tt\n"                 \
    "    >>> tt.sample(np.ones((2, 2))).slices[0].rows\n"           \
    "    [0, 1]"

#define SUMMARY_DOC_ATTENTION_TYPE                                                       \
    "Entropy, largest logit and sink of attention weights, for each head and query.\n\n" \
    "Example:\n"                                                                         \
    "    >>> import numpy as np, tensortap as tt\n"                                      \
    "    >>> q = np.zeros((1, 2, 4), np.float32)  # heads, length, head_dim\n"           \
    "    >>> tt.attention(q, q).entropy.shape\n"                                         \
    "    (1, 2)"

#endif
