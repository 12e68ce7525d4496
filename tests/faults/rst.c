/* SPDX-License-Identifier: Apache-2.0 */
/* A middlebox: it sees segments pass, and can reset a connection by an RST in the name of one of its ends. */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <support/check.h>
#include <sys/socket.h>
#include <unistd.h>

#define FRAME_BYTES (80 * 1024)
#define TRIES       100
#define SILENCE_MS  20
#define DATA_BYTES  1024 /* more than control frames have */

struct segment {
	struct ether_header ether;
	struct iphdr ip;
	struct tcphdr tcp;
} __attribute__((packed));

static uint16_t fold(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint32_t sum_of(const void *data, size_t bytes)
{
	const unsigned char *from = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += (uint32_t)from[i] | (uint32_t)from[i + 1] << 8;
	return sum;
}

/* `seen` came from the host to be reset: the answer that its peer would send for an unknown connection. */
static void answer(const struct segment *seen, struct segment *rst)
{
	*rst = (struct segment){ .ether.ether_type = htons(ETHERTYPE_IP) };
	memcpy(rst->ether.ether_dhost, seen->ether.ether_shost, ETH_ALEN);
	memcpy(rst->ether.ether_shost, seen->ether.ether_dhost, ETH_ALEN);
	rst->ip.version = 4;
	rst->ip.ihl = 5;
	rst->ip.ttl = 64;
	rst->ip.protocol = IPPROTO_TCP;
	rst->ip.tot_len = htons(sizeof(rst->ip) + sizeof(rst->tcp));
	rst->ip.saddr = seen->ip.daddr;
	rst->ip.daddr = seen->ip.saddr;
	rst->ip.check = fold(sum_of(&rst->ip, sizeof(rst->ip)));
	rst->tcp.source = seen->tcp.dest;
	rst->tcp.dest = seen->tcp.source;
	rst->tcp.seq = seen->tcp.ack_seq;
	rst->tcp.doff = 5;
	rst->tcp.rst = 1;
	uint32_t sum = sum_of(&rst->ip.saddr, 8) + htons(IPPROTO_TCP) + htons(sizeof(rst->tcp));
	rst->tcp.check = fold(sum + sum_of(&rst->tcp, sizeof(rst->tcp)));
}

/* A segment of an established connection from the host behind this port. */
static bool is_usable(const unsigned char *frame, ssize_t bytes, const struct sockaddr_ll *from,
		      struct segment *seen)
{
	if (bytes < (ssize_t)sizeof(*seen) || from->sll_pkttype == PACKET_OUTGOING)
		return false;
	memcpy(seen, frame, sizeof(*seen));
	return seen->ether.ether_type == htons(ETHERTYPE_IP) && seen->ip.ihl == 5 &&
	       seen->ip.protocol == IPPROTO_TCP && seen->tcp.ack && !seen->tcp.syn &&
	       !seen->tcp.rst && !seen->tcp.fin;
}

/* The next usable segment from the host within `ms`. */
static bool see(int fd, int ms, struct segment *seen)
{
	static unsigned char frame[FRAME_BYTES];
	struct deadline deadline = deadline_in(ms, "a segment");
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct sockaddr_ll from;

	while (!deadline_passed(&deadline)) {
		socklen_t bytes = sizeof(from);
		if (poll(&pollfd, 1, deadline_left_ms(&deadline)) <= 0)
			continue;
		ssize_t n = recvfrom(fd, frame, sizeof(frame), MSG_DONTWAIT,
				     (struct sockaddr *)&from, &bytes);
		if (is_usable(frame, n, &from, seen))
			return true;
	}
	return false;
}

static bool same_connection(const struct segment *a, const struct segment *b)
{
	return a->tcp.source == b->tcp.source && a->tcp.dest == b->tcp.dest;
}

static bool reset(const struct world_tap *tap, const struct segment *seen)
{
	struct sockaddr_ll to = { .sll_family = AF_PACKET,
				  .sll_ifindex = tap->port,
				  .sll_halen = ETH_ALEN };
	struct segment rst;

	answer(seen, &rst);
	return sendto(tap->fd, &rst, sizeof(rst), 0, (struct sockaddr *)&to, sizeof(to)) ==
	       sizeof(rst);
}

struct world_tap world_tap(const struct world *world, int side, unsigned path)
{
	struct world_tap tap;
	char name[IFNAMSIZ];
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	check(home >= 0 && !setns(world->middle, CLONE_NEWNET));
	snprintf(name, sizeof(name), "s%dp%u", side, path);
	tap.port = (int)if_nametoindex(name);
	tap.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	struct sockaddr_ll addr = { .sll_family = AF_PACKET,
				    .sll_protocol = htons(ETH_P_ALL),
				    .sll_ifindex = tap.port };
	if (tap.fd < 0 || bind(tap.fd, (struct sockaddr *)&addr, sizeof(addr)))
		check_skip("no packet sockets here: %s", strerror(errno));
	check(!setns(home, CLONE_NEWNET));
	close(home);
	return tap;
}

bool world_see_data(const struct world *world, unsigned path, int ms, unsigned port[2])
{
	struct world_tap tap = world_tap(world, 0, path);
	struct deadline deadline = deadline_in(ms, "a message");
	struct segment seen = { 0 };
	bool found = false;

	while (!found && !deadline_passed(&deadline) &&
	       see(tap.fd, deadline_left_ms(&deadline), &seen))
		found = ntohs(seen.ip.tot_len) > DATA_BYTES;
	port[0] = ntohs(seen.tcp.source);
	port[1] = ntohs(seen.tcp.dest);
	world_untap(&tap);
	return found;
}

bool world_rst(const struct world *world, int side, unsigned path, int ms)
{
	struct world_tap tap = world_tap(world, side, path);
	struct segment first, seen;
	bool sent = see(tap.fd, ms, &first) && reset(&tap, &first);

	/* Segments that passed at the same time may have made it too old: repeat until the connection is silent. */
	for (int i = 0; sent && i < TRIES && see(tap.fd, SILENCE_MS, &seen); i++) {
		if (same_connection(&first, &seen))
			reset(&tap, &seen);
	}
	world_untap(&tap);
	return sent;
}

bool world_rst_silent(const struct world_tap *tap, int ms)
{
	struct segment last, seen;
	bool any = false;

	for (; see(tap->fd, ms, &seen); any = true)
		last = seen;
	if (any)
		reset(tap, &last);
	return any;
}

void world_untap(const struct world_tap *tap)
{
	close(tap->fd);
}
