/* SPDX-License-Identifier: Apache-2.0 */
/* The subject gpu: shared functions, and the cases that gpu.c lists. */
#ifndef TESTS_CONFORMANCE_GPU_H
#define TESTS_CONFORMANCE_GPU_H

#include <support/buffer.h>
#include <support/harness.h>
#include <support/link.h>

#define BYTES ((size_t)300000)

/* Number of queries that a held copy waits for: far more than a few polls make. A waiting caller soon makes as many,
 * even if it yields after each; it gives the GPU up after 10 s. */
#define HELD "hold 50"

void need_gpu(void);
/* Nothing is copied if NICs access GPU memory. */
void need_copies(const struct test_net *net);
void need_nics(const struct test_net *net);
/* A comm with queue pairs: on a loaded machine they may be proven too late. */
void open_linked(struct test_net *net, struct link *link);
struct transfer transfer_in(struct test_net *net, void *comm, const struct buffer *buffer);

/* gpu_flush.c */
void a_flush_may_be_of_nothing(struct test_net *net);
void a_slow_flush_is_waited_for(struct test_net *net);
void a_flush_waits_for_those_before_it(struct test_net *net);
void disabled_flushes_are_not_made(struct test_net *net);
void an_aborted_flush_breaks_no_others(struct test_net *net);
void late_flushes_are_waited_for(struct test_net *net);
void a_broken_queue_pair_for_flushes_is_made_again(struct test_net *net);
void where_cuda_cannot_flush_it_is_waited_for(struct test_net *net);
void a_write_without_its_frame_is_flushed(struct test_net *net);

/* gpu_queue_pairs.c */
void no_call_of_cuda_while_queue_pairs_carry_the_data(struct test_net *net);
void what_tcp_did_not_deliver_holds_up_no_other_tag(struct test_net *net);
void the_first_gpu_memory_strands_no_small_receive(struct test_net *net);
void adapters_that_gather_nothing_are_used(struct test_net *net);
void small_messages_are_not_copied_either(struct test_net *net);
void nothing_small_is_written_past_its_receive(struct test_net *net);

/* gpu_copies.c */
void dereg_waits_for_copies(struct test_net *net);
void slow_copies_are_waited_for(struct test_net *net);
void copies_go_on_when_the_connection_breaks(struct test_net *net);
void flags_of_lines_come_last(struct test_net *net);
void lines_may_begin_and_end_anywhere(struct test_net *net);

/* gpu_application.c */
void a_call_of_the_application_holds_nothing_up(struct test_net *net);
void a_copy_of_the_application_holds_nothing_up(struct test_net *net);
void without_a_context_of_its_own_streams_have_priority(struct test_net *net);
void a_context_that_does_not_reach_memory_is_not_used(struct test_net *net);
void a_reset_of_the_device_is_noticed(struct test_net *net);

/* gpu_failures.c */
void a_call_that_fails_is_the_end_of_the_comm_only(struct test_net *net);
void what_a_failed_call_leaves_under_way_harms_nobody(struct test_net *net);
void a_copy_that_fails_is_the_end_of_the_gpu(struct test_net *net);
void a_pool_may_be_made_in_several_goes(struct test_net *net);

#endif
