/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own. */
#ifndef TESTS_UNIT_NETNS_H
#define TESTS_UNIT_NETNS_H

#include <stdbool.h>

#define SKIP_EXIT 77

/* Enter a new namespace whose lo is down and that has nothing else. Exits with 77 and a line that
 * says why if this process may not have one. */
void netns_enter(void);

/* Run "ip <arguments>"; false if it failed, which it tells on stderr unless `quiet`. */
bool netns_ip(bool quiet, const char *arguments);

#endif
