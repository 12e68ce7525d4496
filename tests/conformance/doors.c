/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that may connect (ANYNET_ALLOW), and ports to listen on (ANYNET_PORT_RANGE). */
#include <support/capture.h>
#include <support/unauth.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BARRED "not in ANYNET_ALLOW"

static void skip_builtin(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no such setting");
}

static void wait_until_shut_out(struct test_net *net, struct link *link, int fd)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an unauthenticated connection to be closed");

	while (!unauth_is_shut_out(fd)) {
		check(!link_accept_step(net, link));
		deadline_turn(&deadline);
	}
}

/* --- ANYNET_ALLOW --- */

static void peers_in_the_list_are_accepted(struct test_net *net)
{
	struct link link;

	skip_builtin(net);
	link_open(net, &link);
	link_check(net, &link, 5000);
	check_int(capture_count(0, BARRED), 0);
	link_close(net, &link);
}

/* One line per address, however often it connects, and the peer is not delayed. */
static void others_are_refused_with_one_line(struct test_net *net)
{
	struct target target;
	struct link link;

	skip_builtin(net);
	link_listen(net, &link);
	unauth_target(link_handle(&link), &target);
	for (unsigned i = 0; i < 40; i++) {
		struct anynet_wire_hello hello = unauth_hello(&target);
		int fd = unauth_dial(&target, 7 + i % 2);
		/* Even if it sends the token. */
		if (i % 4 > 1)
			unauth_say(fd, &hello, sizeof(hello));
		wait_until_shut_out(net, &link, fd);
		close(fd);
	}
	check_int(capture_count(0, BARRED), 2);
	check_int(capture_count(CAPTURE_INFO, "127.0.0.7"), 1);
	check_int(capture_count(CAPTURE_INFO, "127.0.0.8"), 1);
	link_finish(net, &link);
	link_check(net, &link, 5000);
	link_close(net, &link);
}

static void a_peer_that_is_not_in_the_list_is_refused(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "connect to give up");
	struct link link;
	int ret = 0;

	skip_builtin(net);
	capture_allow_warn();
	link_listen(net, &link);
	while (!ret) {
		check(!link_accept_step(net, &link));
		ret = driver_connect(net->driver, net->ctx, net->dev, link_copy(&link), &link.send);
		check(!link.send);
		deadline_turn(&deadline);
	}
	check_int(capture_count(CAPTURE_INFO, BARRED), 1);
	check_int(capture_count(CAPTURE_WARN, "not connected within 1000 ms"), 1);
	link_close(net, &link);
}

/* --- ANYNET_PORT_RANGE --- */

#define TAKEN 2

static int take_port(int port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) && !listen(fd, 1))
		return fd;
	close(fd);
	return -1;
}

/* Two adjacent ports that are free. Returns the first. */
static int take_ports(int fds[TAKEN])
{
	for (int i = 0; i < 1000; i++) {
		int port = 20000 + (getpid() * 7 + i * TAKEN) % 10000;

		fds[0] = take_port(port);
		fds[1] = take_port(port + 1);
		if (fds[0] >= 0 && fds[1] >= 0)
			return port;
		close(fds[0]);
		close(fds[1]);
	}
	check_skip("there are no free ports between 20000 and 30000");
}

static void an_exhausted_range_says_so(struct test_net *net)
{
	char range[32], text[96];
	struct target target;
	struct link link;
	int fds[TAKEN];
	int port;

	skip_builtin(net);
	port = take_ports(fds);
	snprintf(range, sizeof(range), "%d-%d", port, port + TAKEN - 1);
	check_ok(setenv("ANYNET_PORT_RANGE", range, 1));
	net_open(net);
	capture_allow_warn();
	check(driver_listen(net->driver, net->ctx, net->dev, link_handle(&link), &link.listener));
	check(!link.listener);
	snprintf(text, sizeof(text), "cannot listen on any port of %s", range);
	check_int(capture_count(CAPTURE_WARN, text), 1);
	close(fds[1]);
	link_open(net, &link);
	unauth_target(link_handle(&link), &target);
	check_int(ntohs(target.addr.sin_port), port + 1);
	link_check(net, &link, 5000);
	close(fds[0]);
	link_close(net, &link);
	net_close(net);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "peers_in_the_list_are_accepted",
		  peers_in_the_list_are_accepted,
		  .settings = { "ANYNET_ALLOW=10.0.0.0/8, 127.0.0.0/8" } },
		{ .name = "others_are_refused_with_one_line",
		  others_are_refused_with_one_line,
		  .settings = { "ANYNET_ALLOW=127.0.0.1,127.0.1.0/24" } },
		{ .name = "a_peer_that_is_not_in_the_list_is_refused",
		  a_peer_that_is_not_in_the_list_is_refused,
		  .settings = { "ANYNET_ALLOW=10.0.0.0/8,::1", "ANYNET_CONNECT_TIMEOUT=1s" } },
		{ .name = "nobody_is_let_in_by_none",
		  a_peer_that_is_not_in_the_list_is_refused,
		  .settings = { "ANYNET_ALLOW=none", "ANYNET_CONNECT_TIMEOUT=1s" } },
		{ .name = "an_exhausted_range_says_so",
		  an_exhausted_range_says_so,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
