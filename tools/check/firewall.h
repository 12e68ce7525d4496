/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Evaluates nftables rules for a connection from another host. libnftables, opened at run time,
 * reads the rules, and they are applied to the first packet of the connection. Rules of
 * iptables-nft are included, those of legacy iptables are not.
 */
#ifndef CHECK_FIREWALL_H
#define CHECK_FIREWALL_H

#include <stdbool.h>

#include <jansson.h>

#define FIREWALL_CHAIN_BYTES 256

/* The first packet of a TCP connection to this host. */
struct firewall_packet {
	const char *interface; /* on which it arrives */
	bool ipv6;
	int port;
};

enum firewall_verdict {
	FIREWALL_PASSES,
	FIREWALL_PERHAPS, /* dropped, unless a rule accepts it for its address or the like */
	FIREWALL_REJECTS, /* the connecting host gets an error */
	FIREWALL_DROPS,   /* the connecting host gets no answer */
};

/* Returns all rules as `nft -j list ruleset` prints them; the caller releases them. NULL: no
 * library, or no permission. */
json_t *firewall_read(void);

/* Applies the rules. `chain` receives the base chain that blocks the packet, "inet filter input";
 * "" = none. */
enum firewall_verdict firewall_judge(const json_t *rules, const struct firewall_packet *packet,
				     char chain[FIREWALL_CHAIN_BYTES]);

#endif
