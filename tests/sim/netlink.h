/* SPDX-License-Identifier: Apache-2.0 */
/* rtnetlink, as far as it lists a host's interfaces and addresses, and tells of carriers. */
#ifndef TESTS_SIM_NETLINK_H
#define TESTS_SIM_NETLINK_H

#include "sim/file.h"

struct sim_file *netlink_new(void);
int netlink_bind(struct sim_file *file, unsigned groups);
ssize_t netlink_ask(struct sim_file *file, const void *request, size_t bytes);

/* "eth0" is NIC 0's name, and 2 its index. */
#define NETLINK_FIRST_INDEX 2

#endif
