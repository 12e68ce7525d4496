/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A switch in user space, for kernels without netem: switch MB_PER_S DELAY_US PORT... [-- LINK...]. It forwards frames
 * between the interfaces PORT, each direction of each pair at the same rate and delay. LINK is "A,B,rate,MB_PER_S" or
 * "A,B,loss,PERCENT": ports by number from 1, B may be "*" for all; with ">" before it only from A to B. The pipe
 * SWITCH_COMMANDS accepts further ones, one per line. Packets keep their offloads (PACKET_VNET_HDR), so checksums are
 * not changed. It prints "ready" and runs until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PORTS_MAX 16
#define FRAME_MAX 70000
#define QUEUE_MAX 65536 /* frames in one direction: more than any sender has in flight */
#define BURST     64    /* frames of a port at a time */
#define BUCKET    4096  /* bytes that pass at once, as in a shaper: ping-pong is not limited by the rate */
#define HEADER    sizeof(struct virtio_net_hdr)

struct frame {
	struct frame *next;
	uint64_t leaves_ns;
	size_t bytes;
	char data[];
};

struct way {
	double bytes_per_ns, loss;
	uint64_t free_ns; /* when its last frame has passed */
	struct frame *first, **last;
	size_t queued;
};

static struct way ways[PORTS_MAX][PORTS_MAX];
static int fds[PORTS_MAX];
static unsigned char macs[PORTS_MAX][ETH_ALEN];
static int ports;
static uint64_t delay_ns;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
	fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int open_port(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0), one = 1, room = 16 << 20;

	at.sll_ifindex = (int)if_nametoindex(name);
	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die(name);
	return fd;
}

static void send_on(struct way *w, const char *data, size_t bytes)
{
	uint64_t now = now_ns(), bucket_ns;
	struct frame *f;

	if (w->loss > 0 && drand48() < w->loss)
		return;
	f = w->queued < QUEUE_MAX ? malloc(sizeof(*f) + bytes) : NULL;
	if (!f)
		return;
	bucket_ns = (uint64_t)(BUCKET / w->bytes_per_ns);
	if (w->free_ns + bucket_ns < now)
		w->free_ns = now - bucket_ns;
	w->free_ns += (uint64_t)((double)bytes / w->bytes_per_ns);
	*f = (struct frame){ .leaves_ns = (w->free_ns > now ? w->free_ns : now) + delay_ns,
			     .bytes = bytes };
	memcpy(f->data, data, bytes);
	*w->last = f;
	w->last = &f->next;
	w->queued++;
}

/* To the port from which this address has sent before, or to all. */
static void take_in(int from, const char *data, size_t bytes)
{
	const unsigned char *to_mac = (const unsigned char *)data + HEADER;
	int to = 0;

	memcpy(macs[from], to_mac + ETH_ALEN, ETH_ALEN);
	while (to < ports && memcmp(macs[to], to_mac, ETH_ALEN) != 0)
		to++;
	for (int i = 0; i < ports; i++) {
		if (i != from && (i == to || to == ports))
			send_on(&ways[from][i], data, bytes);
	}
}

static void read_port(int from)
{
	static char data[FRAME_MAX];

	for (int i = 0; i < BURST; i++) {
		ssize_t n = recv(fds[from], data, sizeof(data), 0);

		if (n < (ssize_t)(HEADER + ETH_HLEN))
			return;
		take_in(from, data, (size_t)n);
	}
}

/* Forwards the frames that are due; returns when the next one is due. */
static uint64_t forward(void)
{
	uint64_t now = now_ns(), next = now + 1000000000;

	for (int from = 0; from < ports; from++) {
		for (int to = 0; to < ports; to++) {
			struct way *w = &ways[from][to];
			struct frame *f;

			while ((f = w->first) && f->leaves_ns <= now) {
				send(fds[to], f->data, f->bytes, 0);
				w->first = f->next;
				if (!w->first)
					w->last = &w->first;
				w->queued--;
				free(f);
			}
			if (f && f->leaves_ns < next)
				next = f->leaves_ns;
		}
	}
	return next;
}

static void set_way(int from, int to, const char *what, double value)
{
	if (!strcmp(what, "loss"))
		ways[from][to].loss = value / 100;
	else
		ways[from][to].bytes_per_ns = value / 1e3;
}

static void set_link(const char *text)
{
	char a[8], b[8], what[8];
	bool one_way = *text == '>';
	double value;

	if (sscanf(text + one_way, "%7[^,],%7[^,],%7[^,],%lf", a, b, what, &value) != 4)
		die(text);
	for (int i = 0; i < ports; i++) {
		if (*b != '*' && i != atoi(b) - 1)
			continue;
		set_way(atoi(a) - 1, i, what, value);
		if (!one_way)
			set_way(i, atoi(a) - 1, what, value);
	}
}

static void take_commands(int fd)
{
	char text[4096], *next = text, *line;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	while ((line = strsep(&next, "\n"))) {
		if (*line)
			set_link(line);
	}
}

int main(int argc, char **argv)
{
	struct pollfd pfds[PORTS_MAX + 1];
	const char *pipe = getenv("SWITCH_COMMANDS");
	int arg = 3, commands = pipe ? open(pipe, O_RDWR | O_CLOEXEC) : -1;

	if (argc < 4)
		die("switch MB_PER_S DELAY_US PORT... [-- LINK...]");
	delay_ns = (uint64_t)atoi(argv[2]) * 1000;
	for (; arg < argc && strcmp(argv[arg], "--") != 0 && ports < PORTS_MAX; arg++)
		fds[ports++] = open_port(argv[arg]);
	for (int i = 0; i < ports * PORTS_MAX; i++) {
		struct way *w = &ways[i / PORTS_MAX][i % PORTS_MAX];

		*w = (struct way){ .bytes_per_ns = atof(argv[1]) / 1e3, .last = &w->first };
	}
	for (arg++; arg < argc; arg++)
		set_link(argv[arg]);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		uint64_t next = forward(), now = now_ns();
		struct timespec wait = { 0 };

		if (next > now)
			wait = (struct timespec){ (time_t)((next - now) / 1000000000),
						  (long)((next - now) % 1000000000) };
		for (int i = 0; i < ports; i++)
			pfds[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		pfds[ports] = (struct pollfd){ .fd = commands, .events = POLLIN };
		if (ppoll(pfds, (nfds_t)ports + 1, &wait, NULL) < 0 && errno != EINTR)
			die("ppoll");
		if (pfds[ports].revents)
			take_commands(commands);
		for (int i = 0; i < ports; i++) {
			if (pfds[i].revents)
				read_port(i);
		}
	}
}
