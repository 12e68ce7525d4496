/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether this host's firewall accepts the job's connections. */
#include "check.h"

#include <string.h>

#define SAMPLES 17 /* maximum number of ports of a range that are tested */

/* Returns the first interface that anynet uses, on which other hosts connect. -1 = none. */
static int interface_of_job(const struct check *check)
{
	for (size_t i = 0; i < check->interfaces.table.link_count; i++)
		if (check->interfaces.verdicts[i].chosen &&
		    check->interfaces.verdicts[i].class < NETIF_LOCAL)
			return (int)i;
	return -1;
}

struct tally {
	int tried, dropped, rejected, perhaps;
	int first_closed; /* port */
	char chain[FIREWALL_CHAIN_BYTES];
};

static void try_ports(const struct check *check, int interface, int low, int high,
		      struct tally *tally)
{
	const struct netif_verdict *verdict = &check->interfaces.verdicts[interface];
	char chain[FIREWALL_CHAIN_BYTES];
	int samples = high - low < SAMPLES ? high - low + 1 : SAMPLES;

	*tally = (struct tally){ 0 };
	for (int i = 0; i < samples; i++) {
		struct firewall_packet packet = {
			.interface = check->interfaces.table.links[interface].name,
			.ipv6 = verdict->addr && verdict->addr->addr.ss_family == AF_INET6,
			.port = i ? low + (high - low) * i / (samples - 1) : low,
		};
		enum firewall_verdict got = firewall_judge(check->firewall, &packet, chain);

		if ((got == FIREWALL_DROPS || got == FIREWALL_REJECTS) && !tally->first_closed)
			tally->first_closed = packet.port;
		tally->tried++;
		tally->dropped += got == FIREWALL_DROPS;
		tally->rejected += got == FIREWALL_REJECTS;
		tally->perhaps += got == FIREWALL_PERHAPS;
		if (got != FIREWALL_PASSES && !*tally->chain)
			memcpy(tally->chain, chain, sizeof(chain));
	}
}

/* "port 5", or "ports 5 to 9". */
static char *ports_text(int low, int high)
{
	return low == high ? text_format("port %d", low) : text_format("ports %d to %d", low, high);
}

/* Names the closed ports. */
static char *closed_text(const struct tally *tally, int low, int high)
{
	int closed = tally->dropped + tally->rejected;

	if (closed == tally->tried)
		return ports_text(low, high);
	return text_format("%d of %d tested ports from %d to %d, such as %d,", closed, tally->tried,
			   low, high, tally->first_closed);
}

void check_ports_open(struct check *check, int low, int high, const char *whose)
{
	int interface = check->firewall ? interface_of_job(check) : -1;
	const char *name;
	struct tally tally;

	if (interface < 0)
		return;
	name = check->interfaces.table.links[interface].name;
	try_ports(check, interface, low, high, &tally);
	if (tally.dropped + tally.rejected) {
		found(check, CHECK_WARN, "firewall-closed",
		      "this host's firewall %s connections to %s on %s: chain %s",
		      tally.dropped ? "drops" : "rejects", closed_text(&tally, low, high), name,
		      tally.chain);
		found_why(check, "%s: other hosts %s", whose,
			  tally.dropped ? "wait until they time out" : "are refused");
		found_fix(check,
			  "nft insert rule %s iifname %s tcp dport %d-%d accept (add it to the "
			  "firewall's configuration as well: it does not survive a restart)",
			  tally.chain, name, low, high);
	} else if (tally.perhaps) {
		found(check, CHECK_NOTE, "firewall-some",
		      "this host's firewall may accept connections to %s on %s from some "
		      "addresses only (chain %s): it must accept all hosts of the job; %s",
		      ports_text(low, high), name, tally.chain, whose);
	}
}

/* If the rules cannot be read, reports at least that there are some. */
static void note_unread(struct check *check)
{
	static const char *const tables[] = { "/proc/net/ip_tables_names",
					      "/proc/net/ip6_tables_names" };
	bool old = false, active;

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		char *line = host_line(&check->host, tables[i]);

		old |= line && *line;
	}
	active = old || (!check->firewall &&
			 host_number(&check->host, "/sys/module/nf_tables/refcnt", 0) > 0);
	if (!active)
		return;
	found(check, CHECK_NOTE, "firewall",
	      "a firewall is active whose rules are not examined here (as root: iptables -S and "
	      "nft list ruleset); %s",
	      check->config.port_min ? "it must accept ANYNET_PORT_RANGE and MASTER_PORT"
				     : "ranks listen on ephemeral ports: if the firewall accepts "
				       "only some, set ANYNET_PORT_RANGE");
}

void check_firewall(struct check *check)
{
	const struct anynet_config *cfg = &check->config;
	char *line = host_line(&check->host, "/proc/sys/net/ipv4/ip_local_port_range");
	int low, high;

	if (line && sscanf(line, "%d %d", &low, &high) == 2 && low > 0 && low <= high &&
	    high <= 65535)
		check_ports_open(check, low, high,
				 cfg->port_min
					 ? "NCCL's bootstrap listens on such ports"
					 : "NCCL's bootstrap and anynet listen on such ports");
	if (cfg->port_min)
		check_ports_open(check, cfg->port_min, cfg->port_max,
				 "anynet listens on the ports of ANYNET_PORT_RANGE");
	note_unread(check);
}
