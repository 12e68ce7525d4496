/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts, their NICs, and the network between them. NIC i of every host is in network i, 10.i.0.0/16, behind its own
 * switch. A packet to an address in network i leaves by NIC i, as Linux routes it, whatever its source address is.
 */
#ifndef TESTS_SIM_NET_H
#define TESTS_SIM_NET_H

#include "sim/sched.h"

#include <stddef.h>

#define NET_HOSTS_MAX 4200
#define NET_NICS_MAX  8

struct sim_nic {
	bool no_carrier;       /* the cable is unplugged: netlink reports it to the host */
	unsigned port_down;    /* number of faults by which its RDMA port is down */
	bool deaf, dumb;       /* loses all incoming packets silently; loses all outgoing packets silently */
	unsigned lossy;        /* per million packets */
	unsigned flips;        /* per million reads: one bit of the data is flipped */
	unsigned narrow;       /* larger segments are lost; 0 = no limit */
	uint64_t latency_ns;   /* half of a hop: from NIC to switch */
	uint64_t jitter_ns;
	uint64_t bytes_per_ms;
	unsigned mbps;                    /* the speed that it reports */
	uint64_t out_free_ns, in_free_ns; /* when the queued packets have passed */
};

struct sim_host {
	unsigned index;
	char name[64];
	bool dead; /* without power: sends and receives nothing */
	unsigned opening; /* processes that are detecting its NICs */
	unsigned ailing;  /* active faults of its RDMA NICs */
	unsigned nics;
	struct sim_nic nic[NET_NICS_MAX];
	uint64_t loopback_free_ns; /* when the packets queued between its own addresses have passed */
	unsigned next_port;
};

extern struct sim_host *net_hosts[NET_HOSTS_MAX];
extern unsigned net_host_count;
extern struct sim_random net_random;
extern bool net_drained; /* no packet is in flight: only for checks */

struct sim_host *net_host_new(unsigned nics);

uint32_t net_address(unsigned host, unsigned nic); /* host byte order */
struct sim_host *net_host_of(uint32_t address);    /* NULL: no host has it */
int net_nic_of(const struct sim_host *host, uint32_t address); /* -1: not of this host */

/* --- packets --- */

struct tcp_socket;

enum packet_kind {
	PACKET_SYN,
	PACKET_SYNACK,
	PACKET_DATA, /* also FIN, window probe */
	PACKET_ACK,
	PACKET_RST
};

struct packet {
	struct sim_timer timer;
	enum packet_kind kind;
	struct tcp_socket *from, *to; /* to: NULL for a SYN */
	uint32_t source, target;
	uint64_t seq, ack, edge; /* edge: the end of the receiver's window */
	uint64_t gap;            /* the first byte received after a hole; 0 = none */
	uint32_t bytes, segment; /* segment: of its largest packet */
	bool fin;
	uint64_t sent_ns, echo_ns;
	int in_nic;
};

/* The bytes that leave within a millisecond on this path. */
uint64_t net_burst(uint32_t source, uint32_t target);

/* Sends it; it is freed when it is delivered or lost. */
void net_send(struct packet *packet);

/* What net_send does, for packets other than TCP's: the packet leaves, queues at both NICs, and arrives later. False:
 * it is lost. */
struct net_way {
	uint64_t bytes, at_ns;
	uint32_t segment; /* of its largest packet */
	int nic;          /* -1: within the host */
};

bool net_goes_out(uint32_t source, uint32_t target, struct net_way *way);
bool net_comes_in(uint32_t target, int nic);

/* The network between the NICs of one index can be cut for a pair of hosts, per direction. */
void net_cut(unsigned from, unsigned to, unsigned nic, bool cut);

/* Delivers the packet to the TCP of its host. */
void tcp_deliver(struct packet *packet);

/* Notifies a host that the carrier of one of its NICs has changed. */
void netlink_carrier(struct sim_host *host, unsigned nic);

#endif
