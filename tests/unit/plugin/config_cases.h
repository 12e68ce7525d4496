/* SPDX-License-Identifier: Apache-2.0 */
/* test_config: shared functions, and the cases that test_config.c lists. */
#ifndef TESTS_UNIT_CONFIG_CASES_H
#define TESTS_UNIT_CONFIG_CASES_H

#include <nccl_net/config.h>

extern struct anynet_config cfg;
extern enum anynet_config_source sources[ANYNET_CONFIG_ROWS_MAX];

/* Loads the given variables, as "NAME=value" up to a NULL, and nothing else. */
void load_with(const char *first, ...);
const struct anynet_config_row *row_of(const char *name);
enum anynet_config_source source_of(const char *name);
const char *value_of(const char *name);
void refuse_value(const struct anynet_config_row *row, const char *value);

/* config_names.c */
void test_unknown_names_of_ours_are_questioned(void **state);
void test_nearly_right_names_of_nccl_are_questioned(void **state);
void test_other_names_of_nccl_are_left_alone(void **state);
void test_odd_environments_do_no_harm(void **state);

/* config_meaning.c */
void test_nccls_threads_and_sockets_multiply(void **state);
void test_too_many_streams_are_lowered_with_one_warning(void **state);
void test_nccls_comm_id_is_a_hint_in_all_its_forms(void **state);
void test_lists_of_networks(void **state);
void test_a_refused_list_allows_no_network(void **state);
void test_blanks_lift_no_restriction(void **state);
void test_port_ranges(void **state);
void test_eager_sends_fit_into_half_the_ring(void **state);

#endif
