/* SPDX-License-Identifier: Apache-2.0 */
/* This host's network interfaces: which of them anynet uses, and which NCCL would use without it. */
#ifndef CHECK_INTERFACES_H
#define CHECK_INTERFACES_H

#include "transports/device/netif.h"

#include "tools/shared/text.h"

struct interfaces {
	struct netif_table table;
	struct netif_verdict *verdicts; /* one for each element of table.links */
	struct netif_notes notes;
	int error; /* errno if the kernel did not list them, or 0 */
};

/* Reads the interfaces from the kernel, and selects among them as the plugin does. */
void interfaces_read(struct interfaces *interfaces, const struct anynet_config *cfg);

/* True if the link is up, with carrier and an address for other hosts, or is lo. */
bool interface_works(const struct interfaces *interfaces, size_t i);

/* Returns the names of working interfaces that match a filter in NCCL_SOCKET_IFNAME's syntax; ""
 * matches all. They are sorted by interface index, as in NCCL. */
struct text_list interfaces_matching(const struct interfaces *interfaces, const char *filter);

/* Returns the interfaces that NCCL's own networks and its bootstrap select in this environment. */
struct text_list interfaces_of_nccl(const struct interfaces *interfaces);

/* True if the interface may reach other hosts: not lo, nor a bridge local to this host. */
bool interface_leads_out(const struct interfaces *interfaces, const char *name);

/* Returns this host's address that equals `addr`; NULL = none. */
const struct netif_addr *interfaces_own_address(const struct interfaces *interfaces,
						const struct sockaddr_storage *addr);

/* Returns the name of the interface that has this address; NULL = none. */
const char *interface_of_address(const struct interfaces *interfaces,
				 const struct netif_addr *addr);

/* Returns the address that anynet uses, "10.0.0.2"; "-" = none. `text` has INET6_ADDRSTRLEN bytes. */
const char *interface_address(const struct interfaces *interfaces, size_t i, char *text);

/* "NIC", "bridge", "veth" … */
const char *interface_kind(const struct interfaces *interfaces, size_t i);

#endif
