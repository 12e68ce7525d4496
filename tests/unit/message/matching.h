/* SPDX-License-Identifier: Apache-2.0 */
/* test_matching: shared functions, and the cases that test_matching.c lists. */
#ifndef TESTS_UNIT_MATCHING_H
#define TESTS_UNIT_MATCHING_H

#include "unit/pair.h"

extern struct pair pair;

struct anynet_request *irecv_group(int n, char data[][16], const int *tags);

/* matching_tags.c */
void test_a_group_is_filled_by_tag(void **state);
void test_a_tag_repeated_in_a_group_fills_in_posting_order(void **state);
void test_a_message_before_its_receive_does_not_block_those_behind_it(void **state);
void test_empty_messages_set_aside_have_a_bound(void **state);
void test_one_message_after_the_other_may_come_before_its_receive(void **state);
void test_a_receive_may_come_in_the_middle_of_its_message(void **state);
void test_many_tags_over_streams_stay_in_order(void **state);
void test_a_large_message_among_tags_is_announced_and_cleared(void **state);
void test_an_announced_message_is_cleared_when_its_receive_is_posted(void **state);
void test_many_words_at_once_are_told_whole(void **state);
void test_large_messages_of_several_tags_arrive(void **state);
void test_a_message_read_before_its_receive_was_posted_is_not_forgotten(void **state);

#endif
