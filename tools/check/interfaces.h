/* SPDX-License-Identifier: Apache-2.0 */
/* This host's network interfaces, which of them anynet uses, and which NCCL would without it. */
#ifndef CHECK_INTERFACES_H
#define CHECK_INTERFACES_H

#include "transports/device/netif.h"

#include "text.h"

struct interfaces {
	struct netif_table table;
	struct netif_verdict *verdicts; /* one for each link */
	struct netif_notes notes;
	int error; /* why the kernel did not list them: errno, or 0 */
};

/* Ask the kernel, and choose as the plugin does. */
void interfaces_read(struct interfaces *interfaces, const struct anynet_config *cfg);
void interfaces_free(struct interfaces *interfaces);

/* Is the link up, with carrier and an address that other hosts could use (or is it lo)? */
bool interface_works(const struct interfaces *interfaces, size_t i);

/* The names of those that work and pass a filter as in NCCL_SOCKET_IFNAME; "" passes all. In the
 * kernel's order, which is NCCL's. */
struct text_list interfaces_matching(const struct interfaces *interfaces, const char *filter);

/* What NCCL's own networks and its bootstrap choose in this environment. */
struct text_list interfaces_of_nccl(const struct interfaces *interfaces);

/* Could it lead to another host? Not lo, nor a bridge that the host itself has made. */
bool interface_leads_out(const struct interfaces *interfaces, const char *name);

/* The name of the interface that has this address; NULL = none. */
const char *interface_of_address(const struct interfaces *interfaces,
				 const struct netif_addr *addr);

/* "10.0.0.2", of the address that anynet would use; "-" = none. In `text` of INET6_ADDRSTRLEN. */
const char *interface_address(const struct interfaces *interfaces, size_t i, char *text);

/* "NIC", "bridge", "veth" … */
const char *interface_kind(const struct interfaces *interfaces, size_t i);

#endif
