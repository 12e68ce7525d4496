/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of interfaces for tests, written as they are told: "eth0 is a NIC with 10.0.0.2/24". */
#ifndef TESTS_UNIT_NETIF_TABLE_H
#define TESTS_UNIT_NETIF_TABLE_H

#include "transports/device/netif.h"

#define TEST_LINKS_MAX 100

/* A loopback interface with 127.0.0.1 and ::1, and nothing else. */
void table_start(struct netif_table *table);

/* Append an interface that is up and running. kind "" = a NIC; "loopback" = one more of those.
 * Addresses are separated by blanks and may have a prefix; a "~" before one makes it a fading
 * one. NULL or "" = none. Returned pointers are good until the next table_start. */
struct netif_link *table_add(struct netif_table *table, const char *name, const char *kind,
			     const char *addresses);

#endif
