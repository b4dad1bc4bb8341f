/* slow_writer.c -- lets the writer of make_run gather points until it is called.
 *
 * Exists because the writer writes a block several times a second: on a busy machine,
 * or under a sanitizer, a run would have more and smaller blocks, and another size.
 * Linked with --wrap=tt_worker_sleep.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>

struct tt_worker;
bool __real_tt_worker_sleep(struct tt_worker *worker, double seconds);
bool __wrap_tt_worker_sleep(struct tt_worker *worker, double seconds);

bool __wrap_tt_worker_sleep(struct tt_worker *worker, double seconds)
{
    (void)seconds;
    return __real_tt_worker_sleep(worker, 3600);
}
