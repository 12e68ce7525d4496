/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of interfaces for tests, in short form: "eth0 is a NIC with 10.0.0.2/24". */
#ifndef TESTS_UNIT_NETIF_TABLE_H
#define TESTS_UNIT_NETIF_TABLE_H

#include "transports/device/netif.h"

#define TEST_LINKS_MAX 100

/* A loopback interface with 127.0.0.1 and ::1, and nothing else. */
void table_start(struct netif_table *table);

/* Appends an interface that is up and running. kind "" = a NIC; "loopback" = another loopback interface. Addresses are
 * separated by blanks and may have a prefix; a "~" before one makes it `fading`. NULL or "" = none. Returned
 * pointers are valid until the next table_start. */
struct netif_link *table_add(struct netif_table *table, const char *name, const char *kind,
			     const char *addresses);

#endif
