/* stream_kernel.h -- copies memory for another core to read.  For format.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TT_TENSOR_STREAM_KERNEL_H
#define TT_TENSOR_STREAM_KERNEL_H

#include <stddef.h>

/* As memcpy, and complete: what is stored after it is seen after it. */
void tt_stream_copy(void *to, const void *from, size_t n);

#endif
