/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of interfaces from a table, by settings, and what a test expects of it. */
#ifndef TESTS_UNIT_DEVICE_NETIF_CHOICE_H
#define TESTS_UNIT_DEVICE_NETIF_CHOICE_H

#include "unit/netif_table.h"

extern struct netif_table table;
extern struct anynet_config cfg;

/* Of the latest choice. */
extern struct netif_verdict verdicts[TEST_LINKS_MAX];
extern struct netif_notes notes;

/* For each test: the table has a loopback interface only, and there are no settings. */
int netif_choice_setup(void **state);

void set_ifname(const char *filter);
void set_subnet(const char *subnet);

/* The chosen interfaces must be exactly these: "eth0 10.0.0.2, eth1 10.0.1.2". */
void expect_chosen(const char *expected);

/* It was not chosen the last time, for a reason with `part` in it. */
void expect_reason(const char *name, const char *part);

#endif
