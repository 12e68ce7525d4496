/* SPDX-License-Identifier: Apache-2.0 */
/* The peer is accepted among ten thousand unauthenticated connections, among slow ones, and without free file
 * descriptors. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/peer.h>
#include <support/proc.h>
#include <support/unauth.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CROWD      10000
#define CROWD_FROM 10   /* source addresses */
#define KEPT_MAX   1500 /* file descriptors of the listening process: 1024 unauthenticated connections and its own */

static void skip_builtin(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket is blocked by one silent connection");
}

/* --- ten thousand --- */

static void need_descriptors(rlim_t count)
{
	struct rlimit limit;

	check_ok(getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_max < count)
		check_skip("a process may have %lu descriptors here, %lu are needed",
			   (unsigned long)limit.rlim_max, (unsigned long)count);
	limit.rlim_cur = limit.rlim_max;
	check_ok(setrlimit(RLIMIT_NOFILE, &limit));
}

/* Connects, sends nothing or half a hello, and stays. Reports when half of the connections exist, and when all do. */
static void crowd(int fd, void *arg)
{
	unsigned char handle[DRIVER_HANDLE_BYTES];
	struct anynet_wire_hello hello;
	struct target target;

	(void)arg;
	need_descriptors(CROWD + 100);
	peer_recv(fd, handle, sizeof(handle));
	unauth_target(handle, &target);
	hello = unauth_hello(&target);
	for (unsigned i = 0; i < CROWD; i++) {
		int one = unauth_dial(&target, 2 + i % CROWD_FROM);

		if (i % 3 == 0)
			unauth_say(one, &hello, i % sizeof(hello));
		if (i == CROWD / 2)
			peer_signal(fd);
	}
	peer_signal(fd);
	peer_await(fd);
}

/* Calls accept, as NCCL does, until the crowd reports. */
static void accept_until_told(struct test_net *net, struct link *link, int fd)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a crowd to gather");
	struct pollfd word = { .fd = fd, .events = POLLIN };

	while (poll(&word, 1, 0) <= 0) {
		check(!link_accept_step(net, link));
		deadline_turn(&deadline);
	}
	peer_await(fd);
}

/* Before silent connections time out, because their time-out is long here. (`net_bench unauthenticated` measures the
 * time.) */
static void check_served(struct test_net *net, struct link *link)
{
	link_finish(net, link);
	link_check(net, link, 200000);
}

/* Each kept connection takes a descriptor. */
static void check_few_are_kept(void)
{
	size_t count = proc_fds(NULL, 0);

	check_that(count < KEPT_MAX, "%zu descriptors are in use", count);
}

static void a_peer_is_accepted_among_ten_thousand(struct test_net *net)
{
	struct link early, late;
	struct peer crowd_peer;

	skip_builtin(net);
	peer_start(&crowd_peer, crowd, NULL);
	net_open(net);
	link_listen(net, &early);
	link_listen(net, &late);
	peer_send(crowd_peer.fd, link_handle(&early), DRIVER_HANDLE_BYTES);
	accept_until_told(net, &early, crowd_peer.fd);
	check_served(net, &early);
	accept_until_told(net, &late, crowd_peer.fd);
	check_few_are_kept();
	check_served(net, &late);
	link_check(net, &early, 200000);
	peer_signal(crowd_peer.fd);
	peer_wait_ok(&crowd_peer);
	link_check(net, &early, 200000);
	link_close(net, &early);
	link_close(net, &late);
	net_close(net);
}

/* --- slow connections --- */

#define SLOW 30

struct slow {
	int fd;
	size_t said;
};

/* One more byte of a hello that is never completed. */
static void drip(struct slow *slow, const struct anynet_wire_hello *hello)
{
	if (slow->said < sizeof(*hello) - 1)
		unauth_say(slow->fd, (const char *)hello + slow->said++, 1);
}

static void slow_connections_are_closed(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "slow connections to be closed");
	struct anynet_wire_hello hello;
	struct slow slow[SLOW];
	struct link link, other;
	struct target target;

	skip_builtin(net);
	link_listen(net, &link);
	link_listen(net, &other);
	unauth_target(link_handle(&link), &target);
	hello = unauth_hello(&target);
	for (size_t i = 0; i < SLOW; i++)
		slow[i] = (struct slow){ .fd = unauth_dial(&target, 0) };
	for (int i = 0; i < 100; i++) {
		for (size_t k = 0; k < SLOW; k++)
			drip(&slow[k], &hello);
		check(!link_accept_step(net, &link));
	}
	link_finish(net, &link);
	link_check(net, &link, 200000);
	for (size_t gone = 0; gone < SLOW;) {
		gone = 0;
		for (size_t k = 0; k < SLOW; k++) {
			drip(&slow[k], &hello);
			gone += unauth_is_shut_out(slow[k].fd);
		}
		check(!link_accept_step(net, &other));
		deadline_turn(&deadline);
	}
	for (size_t i = 0; i < SLOW; i++)
		close(slow[i].fd);
	link_check(net, &link, 200000);
	link_close(net, &link);
	link_close(net, &other);
}

/* --- no file descriptors --- */

#define DESCRIPTORS_MAX 256
#define SHORTAGE        "cannot accept connections: out of file descriptors"

static int taken[DESCRIPTORS_MAX];
static size_t taken_count;

static void take_all_descriptors(void)
{
	struct rlimit limit;
	int fd;

	check_ok(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = DESCRIPTORS_MAX;
	check_ok(setrlimit(RLIMIT_NOFILE, &limit));
	while ((fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0)
		taken[taken_count++] = fd;
	check_int(errno, EMFILE);
}

static void give_back_descriptors(void)
{
	while (taken_count)
		close(taken[--taken_count]);
}

struct shortage {
	struct test_net *net;
	unsigned unauthenticated; /* connections before the peer's */
	size_t links;
};

/* The other side, with free file descriptors: unauthenticated connections, then the peer. */
static void send_all(int fd, void *arg)
{
	const struct shortage *shortage = arg;
	unsigned char handle[DRIVER_HANDLE_BYTES], data[3000];
	struct target target;

	net_open(shortage->net);
	peer_recv(fd, handle, sizeof(handle));
	unauth_target(handle, &target);
	for (unsigned i = 0; i < shortage->unauthenticated; i++)
		unauth_dial(&target, 2);
	pattern_fill(data, sizeof(data), 77);
	for (size_t i = 0; i < shortage->links; i++) {
		struct transfer send = transfer_of(data, sizeof(data), 0, NULL);
		struct link link;

		link_open_sends(shortage->net, &link, 1, fd);
		struct flow flow = {
			.comm = link.send, .is_send = true, .transfers = &send, .count = 1
		};
		flows_run(shortage->net, &flow, 1);
	}
	peer_await(fd);
	_exit(0); /* ends without closing its comms: they are not the subject */
}

static void receive_one(struct test_net *net, struct link *link)
{
	unsigned char data[3000];
	struct transfer recv = transfer_of(data, sizeof(data), 0, NULL);
	struct flow flow = { .comm = link->recv, .transfers = &recv, .count = 1 };

	flows_run(net, &flow, 1);
	pattern_check(data, sizeof(data), 77);
}

static void accept_link(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a connection");

	while (!link_accept_step(net, link))
		deadline_turn(&deadline);
}

static void check_shortage(struct test_net *net, unsigned unauthenticated)
{
	struct shortage shortage = { net, unauthenticated, 1 };
	struct peer peer;
	struct link link;

	skip_builtin(net);
	peer_start(&peer, send_all, &shortage);
	net_open(net);
	capture_allow_warn();
	link_listen(net, &link);
	check(!link_accept_step(net, &link));
	take_all_descriptors();
	peer_send(peer.fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	peer_send(peer.fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	accept_link(net, &link);
	receive_one(net, &link);
	give_back_descriptors();
	peer_signal(peer.fd);
	peer_wait_ok(&peer);
	link_close(net, &link);
	net_close(net);
}

static void one_peer_is_served_without_descriptors(struct test_net *net)
{
	check_shortage(net, 0);
}

static void unauthenticated_connections_are_closed_when_descriptors_run_out(struct test_net *net)
{
	check_shortage(net, 300);
}

/* Connections that wait in the kernel are accepted when descriptors are free again. */
static void peers_wait_for_descriptors(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "word of a shortage");
	struct shortage shortage = { net, 0, 2 };
	struct link links[2];
	struct peer peer;

	skip_builtin(net);
	peer_start(&peer, send_all, &shortage);
	net_open(net);
	capture_allow_warn();
	link_listen(net, &links[0]);
	link_listen(net, &links[1]);
	check(!link_accept_step(net, &links[0]));
	take_all_descriptors();
	peer_send(peer.fd, link_handle(&links[0]), DRIVER_HANDLE_BYTES);
	peer_send(peer.fd, link_handle(&links[0]), DRIVER_HANDLE_BYTES);
	accept_link(net, &links[0]);
	receive_one(net, &links[0]);
	peer_send(peer.fd, link_handle(&links[1]), DRIVER_HANDLE_BYTES);
	while (!capture_count(CAPTURE_WARN, SHORTAGE)) {
		check(!link_accept_step(net, &links[1]));
		deadline_turn(&deadline);
	}
	for (int i = 0; i < 1000; i++)
		check(!link_accept_step(net, &links[1]));
	give_back_descriptors();
	accept_link(net, &links[1]);
	receive_one(net, &links[1]);
	check_int(capture_count(CAPTURE_WARN, SHORTAGE), 1);
	peer_signal(peer.fd);
	peer_wait_ok(&peer);
	link_close(net, &links[0]);
	link_close(net, &links[1]);
	net_close(net);
}

/* --- a small RLIMIT_NOFILE --- */

#define SMALL_LIMIT 256
#define SILENT      900
#define PROGRAMS    (SMALL_LIMIT / 2) /* files opened by the program meanwhile */

static void silent_ones(int fd, void *arg)
{
	unsigned char handle[DRIVER_HANDLE_BYTES];
	struct target target;

	(void)arg;
	need_descriptors(SILENT + 100);
	peer_recv(fd, handle, sizeof(handle));
	unauth_target(handle, &target);
	for (unsigned i = 0; i < SILENT; i++)
		unauth_dial(&target, 2 + i % CROWD_FROM);
	peer_signal(fd);
	peer_await(fd);
}

static void the_program_keeps_most_of_its_descriptors(struct test_net *net)
{
	struct rlimit limit;
	int opened[PROGRAMS];
	struct peer crowd_peer;
	struct link link;

	skip_builtin(net);
	peer_start(&crowd_peer, silent_ones, NULL);
	check_ok(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = SMALL_LIMIT;
	check_ok(setrlimit(RLIMIT_NOFILE, &limit));
	net_open(net);
	link_listen(net, &link);
	peer_send(crowd_peer.fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	accept_until_told(net, &link, crowd_peer.fd);
	check(!link_accept_step(net, &link));
	for (int i = 0; i < PROGRAMS; i++) {
		opened[i] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		check_that(opened[i] >= 0, "the program has got %d descriptors", i);
	}
	for (int i = 0; i < PROGRAMS; i++)
		close(opened[i]);
	check_served(net, &link);
	peer_signal(crowd_peer.fd);
	peer_wait_ok(&crowd_peer);
	link_close(net, &link);
	net_close(net);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_peer_is_accepted_among_ten_thousand",
		  a_peer_is_accepted_among_ten_thousand,
		  .unopened = true,
		  .settings = { "ANYNET_HANDSHAKE_TIMEOUT=10min" } },
		{ .name = "slow_connections_are_closed",
		  slow_connections_are_closed,
		  .settings = { "ANYNET_HANDSHAKE_TIMEOUT=500ms" } },
		{ .name = "one_peer_is_served_without_descriptors",
		  one_peer_is_served_without_descriptors,
		  .unopened = true },
		{ .name = "unauthenticated_connections_are_closed_when_descriptors_run_out",
		  unauthenticated_connections_are_closed_when_descriptors_run_out,
		  .unopened = true },
		{ .name = "the_program_keeps_most_of_its_descriptors",
		  the_program_keeps_most_of_its_descriptors,
		  .unopened = true,
		  .settings = { "ANYNET_HANDSHAKE_TIMEOUT=10min" } },
		{ .name = "peers_wait_for_descriptors",
		  peers_wait_for_descriptors,
		  .unopened = true,
		  .settings = { "ANYNET_HANDSHAKE_TIMEOUT=10min" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
