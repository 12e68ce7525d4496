/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own. */
#ifndef TESTS_UNIT_NETNS_H
#define TESTS_UNIT_NETNS_H

#include <stdbool.h>

#define SKIP_EXIT 77

/* Enters a new namespace with nothing but lo, which is down. Exits with 77 and the reason if this process may not
 * create one. */
void netns_enter(void);

/* Runs "ip <arguments>"; false if it failed, with the reason on stderr unless `quiet`. */
bool netns_ip(bool quiet, const char *arguments);

#endif
