/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What nftables' rules make of a connection from another host: the rules are read by libnftables, which is
 * opened at run time, and judged for the first packet of a connection. Rules of iptables-nft are among
 * them, those of the older iptables are not.
 */
#ifndef CHECK_FIREWALL_H
#define CHECK_FIREWALL_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define FIREWALL_CHAIN_BYTES 256

/* TCP, new, to this host. */
struct firewall_packet {
	const char *interface; /* by which it comes */
	bool ipv6;
	int port;
};

enum firewall_verdict {
	FIREWALL_PASSES,
	FIREWALL_PERHAPS, /* dropped, but for what a rule lets in by an address, say */
	FIREWALL_REJECTS, /* whoever connects is refused */
	FIREWALL_DROPS,   /* … has no answer */
};

/* All rules as `nft -j list ruleset` has them; the caller's. NULL: there is no library, or this user may
 * not read them. */
json_t *firewall_read(void);

/* `chain` gets "inet filter input", the base chain that does not let it in; "" = none. */
enum firewall_verdict firewall_judge(const json_t *rules, const struct firewall_packet *packet,
				     char chain[FIREWALL_CHAIN_BYTES]);

#endif
