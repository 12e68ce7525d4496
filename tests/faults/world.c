/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <unit/netns.h>

#define COMMAND_BYTES 512
#define DISCARD_PORT          9 /* nobody listens */
#define INADDR_OF(path, host) (10u << 24 | 78u << 16 | (path) << 8 | (unsigned)(host))

/* Runs a command of iproute2 in a namespace; returns its exit status. */
static bool command_in(int netns, const char *text)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	check_that(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
		if (setns(netns, CLONE_NEWNET))
			_exit(TEST_FAILED);
		execl("/bin/sh", "sh", "-c", text, (char *)NULL);
		_exit(TEST_FAILED);
	}
	check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

__attribute__((format(printf, 2, 3))) static void run_in(int netns, const char *fmt, ...)
{
	char text[COMMAND_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	check_that(command_in(netns, text), "failed: %s", text);
}

static int new_namespace(void)
{
	check_that(!unshare(CLONE_NEWNET), "unshare: %s", strerror(errno));
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	check_that(fd >= 0, "/proc/self/ns/net: %s", strerror(errno));
	run_in(fd, "ip link set lo up");
	return fd;
}

/* One NIC and its cable to the bridge of its path. */
static void plug_in(const struct world *world, int side, unsigned path, unsigned mbit)
{
	int host = world->host[side], middle = world->middle;

	run_in(middle,
	       "ip link add s%dp%u type veth peer name " WORLD_IFNAME "%u netns /proc/%d/fd/%d",
	       side, path, path, (int)getpid(), host);
	run_in(middle, "ip link set s%dp%u master br%u up", side, path, path);
	run_in(host, "ip addr add 10.78.%u.%d/24 dev " WORLD_IFNAME "%u", path, side + 1, path);
	run_in(host, "ip link set " WORLD_IFNAME "%u up", path);
	if (mbit)
		run_in(host,
		       "tc qdisc add dev " WORLD_IFNAME
		       "%u root tbf rate %umbit burst 256kb latency 20ms",
		       path, mbit);
}

/* Does the peer's kernel refuse a connection? The first ARP request after a change may be lost: the next one follows in a second. */
static bool reaches(const struct world *world, int from, unsigned path)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(DISCARD_PORT) };
	int status;

	addr.sin_addr.s_addr = htonl(INADDR_OF(path, !from + 1));
	fflush(NULL);
	pid_t pid = fork();
	check_that(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		int fd = setns(world->host[from], CLONE_NEWNET) ? -1
								: socket(AF_INET, SOCK_STREAM, 0);

		alarm(2);
		_exit(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
		      errno != ECONNREFUSED);
	}
	check(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* Do the hosts see the carrier, does the bridge forward, do packets arrive? The kernel may take seconds to notice a change. */
static bool carries(const struct world *world, unsigned path)
{
	char text[COMMAND_BYTES];

	for (int host = 0; host < 2; host++) {
		snprintf(text, sizeof(text), "ip link show " WORLD_IFNAME "%u | grep -q 'state UP'", path);
		if (!command_in(world->host[host], text))
			return false;
		snprintf(text, sizeof(text), "bridge link show dev s%dp%u | grep -q 'state forwarding'", host, path);
		if (!command_in(world->middle, text))
			return false;
	}
	return reaches(world, 0, path) && reaches(world, 1, path);
}

void world_settle(const struct world *world)
{
	const struct timespec pause = { .tv_nsec = 5000000 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the links to be up");

	for (unsigned path = 0; path < world->paths; path++) {
		while (!carries(world, path)) {
			deadline_turn(&deadline);
			nanosleep(&pause, NULL);
		}
	}
}

void world_make(struct world *world, unsigned paths, unsigned mbit)
{
	netns_enter();
	*world = (struct world){ .paths = paths };
	world->host[0] = new_namespace();
	world->host[1] = new_namespace();
	world->middle = new_namespace();
	if (!command_in(world->middle, "ip link add probe0 type veth peer name probe1 && ip link "
				       "add probe2 type bridge && tc qdisc add dev probe0 root tbf "
				       "rate 1mbit burst 256kb latency 20ms"))
		check_skip("this kernel or this process cannot make veth, bridge or tbf");
	for (unsigned path = 0; path < paths; path++) {
		run_in(world->middle, "ip link add br%u type bridge && ip link set br%u up", path,
		       path);
		plug_in(world, 0, path, mbit);
		plug_in(world, 1, path, mbit);
	}
	world_settle(world);
}

static bool is_at(int side, int host)
{
	return side == host || side == WORLD_BOTH;
}

void world_link(const struct world *world, int side, unsigned path, bool up)
{
	for (int host = 0; host < 2; host++) {
		if (is_at(side, host))
			run_in(world->host[host], "ip link set " WORLD_IFNAME "%u %s", path,
			       up ? "up" : "down");
	}
}

void world_carrier(const struct world *world, int side, unsigned path, bool on)
{
	for (int host = 0; host < 2; host++) {
		if (is_at(side, host))
			run_in(world->middle, "ip link set s%dp%u %s", host, path,
			       on ? "up" : "down");
	}
}

/* A queue without room in front of the host. */
void world_drop(const struct world *world, int side, unsigned path, bool on)
{
	for (int host = 0; host < 2; host++) {
		if (!is_at(side, host))
			continue;
		if (on)
			run_in(world->middle, "tc qdisc replace dev s%dp%u root pfifo limit 0",
			       host, path);
		else
			run_in(world->middle, "tc qdisc del dev s%dp%u root", host, path);
	}
}

void world_lose(const struct world *world, unsigned path, unsigned permille)
{
	if (!command_in(world->middle, "nft add table netdev lose"))
		check_skip("this kernel has no nftables");
	for (int host = 0; host < 2; host++)
		run_in(world->middle,
		       "nft 'add chain netdev lose s%dp%u { type filter hook ingress device s%dp%u priority 0; }; "
		       "add rule netdev lose s%dp%u numgen random mod 1000 < %u drop'",
		       host, path, host, path, host, path, permille);
}

static void drop_connection(const struct world *world, unsigned path, const unsigned port[2],
			    int from)
{
	run_in(world->middle,
	       "nft 'add chain netdev forget from%d { type filter hook ingress device s%dp%u priority 0; }; "
	       "add rule netdev forget from%d tcp sport %u tcp dport %u drop'",
	       from, from, path, from, port[from], port[!from]);
}

bool world_forget(const struct world *world, unsigned path, int ms)
{
	unsigned port[2];

	if (!command_in(world->middle, "nft add table netdev forget"))
		check_skip("this kernel has no nftables");
	if (!world_see_data(world, path, ms, port))
		return false;
	for (int host = 0; host < 2; host++)
		drop_connection(world, path, port, host);
	return true;
}

void world_remember(const struct world *world)
{
	run_in(world->middle, "nft delete table netdev forget");
}

/* Towards both hosts, two classes: one passes, the other has a queue without room. */
static void make_classes(const struct world *world, unsigned path, unsigned usual)
{
	if (!command_in(world->middle, "tc qdisc add dev probe2 root handle 1: htb && "
				       "tc qdisc del dev probe2 root"))
		check_skip("this kernel has no htb");
	for (int host = 0; host < 2; host++) {
		/* Packets as on a wire, not several in one. */
		run_in(world->host[host], "ip link set " WORLD_IFNAME "%u gso_max_segs 1", path);
		run_in(world->middle, "tc qdisc add dev s%dp%u root handle 1: htb default %u", host,
		       path, usual);
		for (int class = 1; class <= 2; class ++)
			run_in(world->middle,
			       "tc class add dev s%dp%u parent 1: classid 1:%d htb rate 10gbit quantum 60000",
			       host, path, class);
		run_in(world->middle, "tc qdisc add dev s%dp%u parent 1:2 handle 2: pfifo limit 0",
		       host, path);
	}
}

/* By two bytes of the IPv4 header's beginning, as u32 counts: the length is at 2. */
static void classify(const struct world *world, unsigned path, unsigned value, unsigned mask,
		     int class)
{
	for (int host = 0; host < 2; host++)
		run_in(world->middle,
		       "tc filter add dev s%dp%u parent 1: protocol ip prio 1 u32 match u16 %#x %#x at 2 "
		       "flowid 1:%d",
		       host, path, value, mask, class);
}

void world_drop_large(const struct world *world, unsigned path)
{
	make_classes(world, path, 1);
	for (unsigned bit = WORLD_MTU + 1; bit <= 0x8000; bit <<= 1)
		classify(world, path, bit, bit, 2);
}

void world_drop_data(const struct world *world, unsigned path, unsigned hello_bytes)
{
	unsigned headers = 20 + 20 + 12; /* IPv4, TCP, its time stamps */

	make_classes(world, path, 2);
	classify(world, path, 0, 0xff80, 1);
	classify(world, path, headers + hello_bytes, 0xffff, 1);
	for (int host = 0; host < 2; host++)
		run_in(world->middle,
		       "tc filter add dev s%dp%u parent 1: protocol arp prio 2 u32 match u32 0 0 flowid 1:1",
		       host, path);
}
