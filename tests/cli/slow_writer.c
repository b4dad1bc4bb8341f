/* slow_writer.c -- lets the writer of make_run gather points until it is called.
 *
 * Exists because the writer writes a block several times a second: on a busy machine,
 * or under a sanitizer, a run would have more and smaller blocks, and another size.
 * Linked with --wrap=tt_queue_sleep.
 * SPDX-License-Identifier: Apache-2.0 */
struct tt_queue;
void __real_tt_queue_sleep(struct tt_queue *queue, double seconds);
void __wrap_tt_queue_sleep(struct tt_queue *queue, double seconds);

void __wrap_tt_queue_sleep(struct tt_queue *queue, double seconds)
{
    (void)seconds;
    __real_tt_queue_sleep(queue, 3600);
}
