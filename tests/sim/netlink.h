/* SPDX-License-Identifier: Apache-2.0 */
/* rtnetlink: the list of a host's interfaces and addresses, and notifications of carrier changes. */
#ifndef TESTS_SIM_NETLINK_H
#define TESTS_SIM_NETLINK_H

#include "sim/file.h"

struct sim_file *netlink_new(void);
int netlink_bind(struct sim_file *file, unsigned groups);
ssize_t netlink_ask(struct sim_file *file, const void *request, size_t bytes);

/* NIC 0 is named "eth0", and has index 2. */
#define NETLINK_FIRST_INDEX 2

#endif
