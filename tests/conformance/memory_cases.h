/* SPDX-License-Identifier: Apache-2.0 */
/* The subject memory: shared functions, and the cases that memory.c lists. */
#ifndef TESTS_CONFORMANCE_MEMORY_CASES_H
#define TESTS_CONFORMANCE_MEMORY_CASES_H

#include <support/harness.h>

#define MIB (1024 * 1024)

/* memory_dereg.c */
void dereg_of_a_receive_in_flight_lets_go_of_it(struct test_net *net);
void dereg_of_a_send_in_flight_lets_go_of_it(struct test_net *net);
void what_another_handle_keeps_registered_is_not_written_either(struct test_net *net);
void dereg_reaches_receives_of_other_comms(struct test_net *net);
void dereg_reaches_sends_of_other_comms(struct test_net *net);
void dereg_reaches_comms_of_other_threads(struct test_net *net);
void a_handle_outlives_its_comm(struct test_net *net);
void close_after_dereg_touches_nothing(struct test_net *net);

#endif
