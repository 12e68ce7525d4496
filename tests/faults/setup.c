/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting to, and accepting from, peers that do not complete the handshake: every call returns at once, and the
 * set-up ends by its time-out. */
#include "measure.h"
#include "scenario.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <nccl_net/abi/nccl_types.h>
#include <nccl_net/wire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/link.h>
#include <support/peer.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECT_MS  1000 /* ANYNET_CONNECT_TIMEOUT here */
#define STEPS_MAX   200
#define CONNECTIONS 64
#define ACCEPT_MS   750 /* accept is called for this long after the connector is gone */

static struct job_state job; /* of this process */

static struct test_net open_net(const struct job_plan *plan)
{
	struct test_net net = { .spec = plan->net, .abi = plan->abi };

	job_environment(plan);
	net.driver = job_open(plan, &job, &net.ctx);
	return net;
}

/* --- a listener that is not the plugin's --- */

struct impostor {
	const char *name;
	bool accepts, closes;
	size_t bytes; /* sent after accepting */
	bool noise;   /* … not the beginning of a welcome */
	bool stands;  /* its kernel keeps the connection: it may answer late */
};

static const struct impostor impostors[] = {
	{ .name = "nobody listens", .closes = true },
	{ .name = "listens and does not accept", .stands = true },
	{ "accepts and says nothing", .accepts = true, .stands = true },
	{ "accepts and hangs up", .accepts = true, .closes = true },
	{ "says half a welcome", .accepts = true, .bytes = 400, .stands = true },
	{ "says half a welcome and hangs up", .accepts = true, .bytes = 400, .closes = true },
	{ "says something else", .accepts = true, .bytes = 5000, .noise = true },
};
#define IMPOSTORS (sizeof(impostors) / sizeof(impostors[0]))

static int open_impostor(struct anynet_wire_handle *handle)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	check(fd >= 0 && !bind(fd, (struct sockaddr *)&addr, bytes));
	check(!listen(fd, CONNECTIONS));
	check(!getsockname(fd, (struct sockaddr *)&addr, &bytes));
	for (int i = 0; i < ANYNET_HANDLE_ADDRS; i++)
		handle->addrs[i].port = ntohs(addr.sin_port);
	return fd;
}

static void say_something(int fd, const struct impostor *impostor)
{
	struct anynet_wire_hello hello[8] = { 0 };

	if (!impostor->noise) {
		hello->magic = ANYNET_HELLO_MAGIC;
		hello->version = ANYNET_WIRE_VERSION;
		hello->type = ANYNET_WELCOME;
	}
	ssize_t sent = send(fd, hello, impostor->bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)sent;
}

static void serve(int listener, const struct impostor *impostor, int fds[CONNECTIONS], int *count)
{
	if (!impostor->accepts || *count == CONNECTIONS)
		return;
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	if (fd < 0)
		return;
	say_something(fd, impostor);
	if (impostor->closes)
		close(fd);
	else
		fds[(*count)++] = fd;
}

/* Calls connect until it fails; returns how long that took. An established one is closed after its second WARN, which
 * is not before twice the time-out. */
static double connect_in_vain(struct test_net *net, struct link *link, int listener,
			      const struct impostor *impostor)
{
	struct deadline deadline = deadline_in(SETTLED_MS, "connect to give up");
	int fds[CONNECTIONS], count = 0, ret = 0;
	unsigned before = atomic_load(&job.warns);
	bool stands = impostor->stands;
	uint64_t began = real_ns();

	while (!ret) {
		measured(&job, ret = driver_connect(net->driver, net->ctx, 0, link_copy(link),
						    &link->send));
		check(!link->send);
		check(!stands || !ret);
		if (stands && atomic_load(&job.warns) - before == 2) {
			stands = false;
			shutdown(listener, SHUT_RDWR);
			while (count)
				close(fds[--count]);
		}
		serve(listener, impostor, fds, &count);
		deadline_turn(&deadline);
	}
	double ms = ms_of(real_ns() - began);
	check(ret == ANYNET_NCCL_REMOTE_ERROR || ret == ANYNET_NCCL_INVALID_USAGE);
	while (count)
		close(fds[--count]);
	return ms;
}

static void connect_to_impostor(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=1s");
	plan_set(&plan, "ANYNET_STALL_WARN=1s");
	struct test_net net = open_net(&plan);
	for (size_t i = 0; i < IMPOSTORS; i++) {
		struct link link;
		link_listen(&net, &link);
		int fd = open_impostor((void *)link_copy(&link));
		if (!impostors[i].accepts && impostors[i].closes)
			shutdown(fd, SHUT_RDWR);
		unsigned warns = atomic_load(&job.warns);
		double ms = connect_in_vain(&net, &link, fd, &impostors[i]);
		printf("%s: gave up after %.0f ms\n", impostors[i].name, ms);
		check(ms > CONNECT_MS / 2);
		/* Two warnings say that it waits, the last one says that it failed. */
		check_int(atomic_load(&job.warns) - warns, impostors[i].stands ? 3 : 1);
		measure_check(&job);
		close(fd);
		link_close(&net, &link);
	}
	check_ok(driver_finalize(net.driver, net.ctx));
}

/* --- peers with the plugin, in lockstep: one step for each byte, an answer with the result --- */

struct peer_plan {
	const struct job_plan *plan;
	bool connects;
};

/* Two processes run a part of the handshake each; `fd` carries the handle first. */
static void step_on_demand(int fd, void *arg)
{
	const struct peer_plan *peer = arg;
	struct test_net net = open_net(peer->plan);
	struct link link;
	char byte;

	if (peer->connects) {
		memset(&link, 0, sizeof(link));
		peer_recv(fd, link_copy(&link), DRIVER_HANDLE_BYTES);
	} else {
		link_listen(&net, &link);
		peer_send(fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	}
	for (;;) {
		int ret;
		peer_recv(fd, &byte, 1);
		if (peer->connects)
			ret = link.send ? 0
					: driver_connect(net.driver, net.ctx, 0, link_copy(&link),
							 &link.send);
		else
			ret = link.recv ? 0 : driver_accept(net.driver, link.listener, &link.recv);
		byte = (char)(ret ? 'x' : link.send || link.recv ? 'y' : 'n');
		peer_send(fd, &byte, 1);
	}
}

static char peer_step(struct peer *peer)
{
	char byte = '.';

	peer_send(peer->fd, &byte, 1);
	peer_recv(peer->fd, &byte, 1);
	return byte;
}

static void peer_freeze(struct peer *peer)
{
	int status;

	kill(peer->pid, SIGSTOP);
	check(waitpid(peer->pid, &status, WUNTRACED) == peer->pid && WIFSTOPPED(status));
}

static void peer_gone(struct peer *peer, bool freeze)
{
	if (freeze)
		peer_freeze(peer);
	else
		peer_kill(peer);
}

/* The acceptor ends after `steps` steps of both; a frozen one is waited for, and dies later. True if there were fewer
 * steps. */
static bool connect_to_absent(const struct job_plan *plan, int steps, bool freeze)
{
	struct peer_plan peer_plan = { plan, false };
	struct peer peer;
	struct link link = { .send = NULL };
	int ret = 0, done = 0;

	peer_start(&peer, step_on_demand, &peer_plan);
	struct test_net net = open_net(plan);
	peer_recv(peer.fd, link_copy(&link), DRIVER_HANDLE_BYTES);
	for (; done < steps && !link.send; done++) {
		check_ok(driver_connect(net.driver, net.ctx, 0, link_copy(&link), &link.send));
		peer_step(&peer);
	}
	peer_gone(&peer, freeze);
	struct deadline deadline = deadline_in(SETTLED_MS, "connect to end");
	uint64_t end = real_ns() + 2 * CONNECT_MS * 1000000ull;
	while (!ret && !link.send) {
		measured(&job, ret = driver_connect(net.driver, net.ctx, 0, link_copy(&link),
						    &link.send));
		check_that(!freeze || !ret || real_ns() >= end, "a frozen peer was given up");
		if (freeze && real_ns() >= end) {
			peer_kill(&peer);
			freeze = false;
		}
		deadline_turn(&deadline);
	}
	measure_check(&job);
	measured(&job, check_ok(driver_close_send(net.driver, link.send)));
	check_ok(driver_finalize(net.driver, net.ctx));
	if (freeze)
		peer_kill(&peer);
	return done < steps;
}

/* Runs `run` in a process of its own; returns its exit status. */
static int in_process(bool (*run)(const struct job_plan *plan, int steps, bool freeze),
		      const struct job_plan *plan, int steps, bool freeze)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	check(pid >= 0);
	if (!pid)
		_exit(run(plan, steps, freeze) ? 2 : 0); /* what it leaves open is not closed */
	check(peer_reap(pid, 2 * TEST_PATIENCE_MS, &status));
	check_that(WIFEXITED(status) && WEXITSTATUS(status) != TEST_FAILED,
		   "%d steps, %s: status 0x%x", steps, freeze ? "frozen" : "dead",
		   (unsigned)status);
	return WEXITSTATUS(status);
}

static void for_all_steps(const struct job_plan *plan,
			  bool (*run)(const struct job_plan *plan, int steps, bool freeze))
{
	for (int freeze = 0; freeze < 2; freeze++) {
		int steps = 0;
		while (in_process(run, plan, steps, freeze) == 0 && steps < STEPS_MAX)
			steps++;
		check(steps < STEPS_MAX);
		printf("%s after each of %d steps\n", freeze ? "frozen" : "dead", steps);
	}
}

static void connect_to_gone(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=1s");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	for_all_steps(&plan, connect_to_absent);
}

/* --- roles exchanged --- */

/* When the first connector is gone the listener accepts another one, or has made a comm of the first. */
static void serve_another(struct test_net *net, struct link *link, struct peer *peer)
{
	struct deadline deadline = deadline_in(SETTLED_MS, "another connector to be served");

	peer_send(peer->fd, link_handle(link), DRIVER_HANDLE_BYTES);
	while (!link->recv) {
		char said = peer_step(peer);
		check_that(said != 'x', "connect failed");
		check_ok(driver_accept(net->driver, link->listener, &link->recv));
		deadline_turn(&deadline);
	}
}

static bool accept_from_absent(const struct job_plan *plan, int steps, bool freeze)
{
	struct peer_plan peer_plan = { plan, true };
	struct peer peer, other;
	struct link link;
	char said = 'n';
	int done = 0;

	peer_start(&peer, step_on_demand, &peer_plan);
	peer_start(&other, step_on_demand, &peer_plan);
	struct test_net net = open_net(plan);
	link_listen(&net, &link);
	peer_send(peer.fd, link_handle(&link), DRIVER_HANDLE_BYTES);
	for (; done < steps && !link.recv; done++) {
		said = peer_step(&peer);
		check(said != 'x');
		check_ok(driver_accept(net.driver, link.listener, &link.recv));
	}
	peer_gone(&peer, freeze);
	for (uint64_t end = real_ns() + ACCEPT_MS * 1000000u; !link.recv && real_ns() < end;
	     turn_idle())
		measured(&job, check_ok(driver_accept(net.driver, link.listener, &link.recv)));
	if (!link.recv && !freeze)
		serve_another(&net, &link, &other);
	measured(&job, link_close(&net, &link));
	measure_check(&job);
	peer_kill(&other);
	if (freeze)
		peer_kill(&peer);
	check_ok(driver_finalize(net.driver, net.ctx));
	return done < steps;
}

static void accept_from_gone(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=10s");
	plan_set(&plan, "ANYNET_HANDSHAKE_TIMEOUT=500ms");
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=3");
	for_all_steps(&plan, accept_from_absent);
}

const struct scenario setup_scenarios[] = {
	{ "connect-to-impostor", connect_to_impostor, 9 },
	{ "connect-to-gone", connect_to_gone, 15 },
	{ "accept-from-gone", accept_from_gone, 15 },
	{ 0 },
};
