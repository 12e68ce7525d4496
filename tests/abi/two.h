/* SPDX-License-Identifier: Apache-2.0 */
/* Two copies of the plugin in one process, connected with each other. */
#ifndef TESTS_ABI_TWO_H
#define TESTS_ABI_TWO_H

#include <support/harness.h>
#include <support/link.h>

/* The plugin `spec`, or a copy of it with its own variables, by the table of this version. It reads the environment
 * now. */
struct test_net open_abi(const char *spec, int abi);
struct test_net open_copy(const char *spec, int abi);

/* The listener belongs to one, the connector to the other. */
void link_between(struct test_net *from, struct test_net *to, struct link *link);

/* Messages of `bytes` bytes each, checked. */
void send_between(struct test_net *from, struct test_net *to, struct link *link, size_t bytes);

void close_between(struct test_net *from, struct test_net *to, struct link *link);

#endif
