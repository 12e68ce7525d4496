/* SPDX-License-Identifier: Apache-2.0 */
/* Transport of packets through NICs and switches; see net.h. */
#include "sim/net.h"
#include "sim/tcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK_NS           (10 * SIM_US)
#define LOOPBACK_BYTES_PER_MS 5000000
#define HEADER_BYTES          66
#define CUT_HOSTS             64 /* only pairs among the first hosts can be cut */

struct sim_host *net_hosts[NET_HOSTS_MAX];
unsigned net_host_count;
struct sim_random net_random;

static uint8_t cuts[CUT_HOSTS][CUT_HOSTS]; /* bit sets of NICs */

struct sim_host *net_host_new(unsigned nics)
{
	struct sim_host *host = calloc(1, sizeof(*host));

	if (!host || net_host_count == NET_HOSTS_MAX)
		abort();
	host->index = net_host_count;
	host->nics = nics;
	host->next_port = 40000;
	snprintf(host->name, sizeof(host->name), "host%u", host->index);
	net_hosts[net_host_count++] = host;
	return host;
}

uint32_t net_address(unsigned host, unsigned nic)
{
	return 10u << 24 | nic << 16 | (host + 1);
}

struct sim_host *net_host_of(uint32_t address)
{
	unsigned host = (address & 0xffff) - 1, nic = address >> 16 & 0xff;

	if (address >> 24 != 10 || host >= net_host_count || nic >= net_hosts[host]->nics)
		return NULL;
	return net_hosts[host];
}

int net_nic_of(const struct sim_host *host, uint32_t address)
{
	return net_host_of(address) == host ? (int)(address >> 16 & 0xff) : -1;
}

void net_cut(unsigned from, unsigned to, unsigned nic, bool cut)
{
	if (from >= CUT_HOSTS || to >= CUT_HOSTS)
		return;
	cuts[from][to] = (uint8_t)(cut ? cuts[from][to] | 1u << nic : cuts[from][to] & ~(1u << nic));
}

static bool is_cut(const struct sim_host *from, const struct sim_host *to, int nic)
{
	return from->index < CUT_HOSTS && to->index < CUT_HOSTS && cuts[from->index][to->index] >> nic & 1;
}

static void drop(struct packet *packet)
{
	tcp_packet_gone(packet);
	free(packet);
}

bool net_comes_in(uint32_t target, int in_nic)
{
	const struct sim_host *host = net_host_of(target);
	const struct sim_nic *nic = in_nic < 0 ? NULL : &host->nic[in_nic];

	return !host->dead &&
	       !(nic && (nic->no_carrier || nic->deaf || random_chance(&net_random, nic->lossy)));
}

static void arrive(struct sim_timer *timer)
{
	struct packet *packet = (struct packet *)timer;

	if (net_comes_in(packet->target, packet->in_nic))
		tcp_deliver(packet);
	drop(packet);
}

uint64_t net_burst(uint32_t source, uint32_t target)
{
	const struct sim_host *from = net_host_of(source), *to = net_host_of(target);
	unsigned nic = target >> 16 & 0xff;

	if (!from || !to || from == to || nic >= from->nics)
		return LOOPBACK_BYTES_PER_MS;
	return from->nic[nic].bytes_per_ms < to->nic[nic].bytes_per_ms ? from->nic[nic].bytes_per_ms
								       : to->nic[nic].bytes_per_ms;
}

static uint64_t jitter(const struct sim_nic *nic)
{
	return nic->jitter_ns ? random_below(&net_random, nic->jitter_ns) : 0;
}

/* The packets wait until `free_ns`, and then occupy the link for their own duration. Returns the time of their end. */
static uint64_t pass(uint64_t *free_ns, uint64_t from, uint64_t bytes, uint64_t bytes_per_ms)
{
	uint64_t start = *free_ns > from ? *free_ns : from;

	*free_ns = start + bytes * SIM_MS / bytes_per_ms;
	return *free_ns;
}

static bool is_lost(const struct sim_nic *nic, uint32_t segment)
{
	return nic->no_carrier || nic->dumb || random_chance(&net_random, nic->lossy) ||
	       (nic->narrow && segment > nic->narrow);
}

bool net_goes_out(uint32_t source, uint32_t target, struct net_way *way)
{
	struct sim_host *from = net_host_of(source), *to = net_host_of(target);
	struct sim_nic *out, *in;

	if (!to || from->dead)
		return false;
	if (from == to) {
		way->nic = -1;
		way->at_ns = pass(&from->loopback_free_ns, sim_now, way->bytes, LOOPBACK_BYTES_PER_MS) + LOOPBACK_NS;
		return true;
	}
	way->nic = (int)(target >> 16 & 0xff);
	if (way->nic >= (int)from->nics)
		return false;
	out = &from->nic[way->nic];
	in = &to->nic[way->nic];
	if (is_lost(out, way->segment) || is_cut(from, to, way->nic) || (in->narrow && way->segment > in->narrow))
		return false;
	way->at_ns = pass(&out->out_free_ns, sim_now, way->bytes, out->bytes_per_ms) + out->latency_ns + jitter(out);
	way->at_ns = pass(&in->in_free_ns, way->at_ns, way->bytes, in->bytes_per_ms) + in->latency_ns + jitter(in);
	return true;
}

void net_send(struct packet *packet)
{
	struct net_way way = { .bytes = packet->bytes + HEADER_BYTES * (1 + packet->bytes / 1448),
			       .segment = packet->segment };

	packet->timer.fire = arrive;
	packet->sent_ns = sim_now;
	if (!net_goes_out(packet->source, packet->target, &way)) {
		drop(packet);
		return;
	}
	packet->in_nic = way.nic;
	if (way.nic < 0) {
		timer_set(&packet->timer, way.at_ns);
		return;
	}
	/* Networks choose one path for each connection, so its packets stay in order. */
	if (way.at_ns > packet->from->arrives_ns)
		packet->from->arrives_ns = way.at_ns;
	timer_set(&packet->timer, packet->from->arrives_ns);
}
