/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link with a delay between two network namespaces, for kernels without netem: a tun interface "far0" in
 * each, and this process, which forwards each packet after the delay. It passes unsegmented packets with
 * virtio-net headers, so that it is about as fast as a veth pair.
 *
 *   delay_line NETNS_A NETNS_B MICROSECONDS [BYTES_PER_SECOND]
 *
 * Prints "ready" when both interfaces exist; the caller assigns their addresses. Runs until killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PACKET_BYTES 65600 /* including the virtio-net header */
#define SLOTS	     1024  /* packets in flight each way; more wait in the interface */
#define BURST	     32	   /* packets read before due ones are sent */
#define RETRY_NS     100000 /* when the interface takes no packet */

struct link {
	uint64_t delay_ns, rate; /* rate: bytes per second; 0 = unlimited */
};

struct way {
	int in, out;
	uint64_t free_at; /* when the link has sent the last packet, at its rate */
	unsigned head, tail; /* slots [tail, head) are in use */
	struct slot {
		uint64_t due;
		size_t bytes;
		uint8_t *data;
	} slots[SLOTS];
};

static void fail(const char *what)
{
	fprintf(stderr, "delay_line: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int open_tun(const char *netns)
{
	struct ifreq ifr = { .ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR };
	char path[256];
	int ns, fd;

	snprintf(path, sizeof(path), "/run/netns/%s", netns);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET))
		fail(path);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "far0");
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr) ||
	    ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4))
		fail("/dev/net/tun");
	return fd;
}

static void make_way(struct way *way, int in, int out)
{
	way->in = in;
	way->out = out;
	for (int i = 0; i < SLOTS; i++) {
		way->slots[i].data = malloc(PACKET_BYTES);
		if (!way->slots[i].data)
			fail("memory");
	}
}

static void take_in(struct way *way, const struct link *link)
{
	for (int i = 0; i < BURST && way->head - way->tail < SLOTS; i++) {
		struct slot *slot = &way->slots[way->head % SLOTS];
		ssize_t bytes = read(way->in, slot->data, PACKET_BYTES);
		uint64_t now = now_ns();

		if (bytes <= 0)
			return;
		slot->bytes = (size_t)bytes;
		way->free_at = way->free_at > now ? way->free_at : now;
		if (link->rate)
			way->free_at += (uint64_t)bytes * 1000000000 / link->rate;
		slot->due = way->free_at + link->delay_ns;
		way->head++;
	}
}

/* Sends due packets. Returns when the next one is due; UINT64_MAX = none. */
static uint64_t hand_over(struct way *way)
{
	while (way->tail != way->head) {
		struct slot *slot = &way->slots[way->tail % SLOTS];

		if (slot->due > now_ns())
			return slot->due;
		if (write(way->out, slot->data, slot->bytes) < 0) {
			if (errno == EAGAIN)
				return now_ns() + RETRY_NS;
			if (errno != EIO) /* the interface is down */
				fail("write");
		}
		way->tail++;
	}
	return UINT64_MAX;
}

static void carry(struct way ways[2], const struct link *link)
{
	for (;;) {
		struct pollfd polled[2];
		uint64_t due = UINT64_MAX, now, wait;
		struct timespec timeout;

		for (int i = 0; i < 2; i++) {
			uint64_t next;

			take_in(&ways[i], link);
			next = hand_over(&ways[i]);
			due = next < due ? next : due;
			polled[i].fd = ways[i].head - ways[i].tail < SLOTS ? ways[i].in : -1;
			polled[i].events = POLLIN;
		}
		now = now_ns();
		wait = due > now ? due - now : 0;
		timeout.tv_sec = (time_t)(wait / 1000000000);
		timeout.tv_nsec = (long)(wait % 1000000000);
		if (ppoll(polled, 2, due == UINT64_MAX ? NULL : &timeout, NULL) < 0 &&
		    errno != EINTR)
			fail("ppoll");
	}
}

int main(int argc, char **argv)
{
	static struct way ways[2];
	struct link link;
	int a, b;

	if (argc < 4) {
		fprintf(stderr, "usage: delay_line NETNS_A NETNS_B MICROSECONDS [BYTES_PER_SECOND]\n");
		return 2;
	}
	link.delay_ns = strtoull(argv[3], NULL, 10) * 1000;
	link.rate = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
	a = open_tun(argv[1]);
	b = open_tun(argv[2]);
	make_way(&ways[0], a, b);
	make_way(&ways[1], b, a);
	puts("ready");
	fflush(stdout);
	carry(ways, &link);
}
