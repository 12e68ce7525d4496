/* SPDX-License-Identifier: Apache-2.0 */
#include "attempt.h"
#include "hurt.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/buffer.h>
#include <support/check.h>
#include <support/flow.h>
#include <support/peer.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES      (200u * 1024)
#define COUNT      24
#define CONNECT_MS 12000

struct attempt attempt;

/* All memory, allocated before anything may fail. */
static struct {
	struct buffer from, to;
	struct transfer sends[COUNT], recvs[COUNT];
	struct flow flows[2];
} memory;

bool attempt_start(void)
{
	struct test_net *net = &attempt.net;
	int count = 0;

	return !job_init(net->driver, &net->ctx) && !driver_devices(net->driver, &count) &&
	       count > 0;
}

bool attempt_connect(void)
{
	struct deadline deadline = deadline_in(CONNECT_MS, "a connection or an error");
	struct test_net *net = &attempt.net;
	struct link *link = &attempt.link;

	memset(link, 0, sizeof(*link));
	if (driver_listen(net->driver, net->ctx, 0, link_handle(link), &link->listener))
		return false;
	memcpy(link_copy(link), link_handle(link), DRIVER_HANDLE_BYTES);
	while (!link->send || !link->recv) {
		if (!link->send &&
		    driver_connect(net->driver, net->ctx, 0, link_copy(link), &link->send))
			return false;
		if (!link->recv && driver_accept(net->driver, link->listener, &link->recv))
			return false;
		deadline_turn(&deadline);
	}
	return true;
}

static void new_flows(uint64_t seed)
{
	pattern_fill(memory.from.data, BYTES, seed);
	buffer_blank(&memory.to);
	for (size_t i = 0; i < COUNT; i++) {
		size_t bytes = i % 3 ? BYTES : 100;
		memory.sends[i] = transfer_of(memory.from.data, bytes, 0, NULL);
		memory.recvs[i] = transfer_of(memory.to.data + i * BYTES, bytes, 0, NULL);
	}
	memory.flows[0] = (struct flow){ .comm = attempt.link.send,
					 .is_send = true,
					 .transfers = memory.sends,
					 .count = COUNT };
	memory.flows[1] = (struct flow){ .comm = attempt.link.recv,
					 .transfers = memory.recvs,
					 .count = COUNT };
}

bool attempt_exchange(uint64_t seed, bool hurt)
{
	struct deadline deadline = deadline_in(ATTEMPT_MS / 2, "messages or an error");

	new_flows(seed);
	for (bool over = false; !over;) {
		bool sent = flow_step(&attempt.net, &memory.flows[0]);
		bool received = flow_step(&attempt.net, &memory.flows[1]);
		if (hurt && memory.flows[1].done > COUNT / 2) {
			hurt_all(HURT_SHUT);
			hurt = false;
		}
		if (memory.flows[0].error || memory.flows[1].error)
			return false;
		over = sent && received;
		deadline_turn(&deadline);
	}
	for (size_t i = 0; i < COUNT; i++)
		pattern_check(memory.recvs[i].data[0], (size_t)memory.recvs[i].sizes[0], seed);
	return true;
}

void attempt_close(void)
{
	struct test_net *net = &attempt.net;

	check_ok(driver_close_send(net->driver, attempt.link.send));
	check_ok(driver_close_recv(net->driver, attempt.link.recv));
	check_ok(driver_close_listen(net->driver, attempt.link.listener));
}

bool attempt_all(void)
{
	if (!attempt_start() || !attempt_connect() || !attempt_exchange(1, false))
		return false;
	hurt_all(HURT_SHUT);
	return attempt_exchange(3, true);
}

void attempt_apart(const char *name, int (*run)(const struct job_plan *plan, const void *arg),
		   const struct job_plan *plan, const void *arg)
{
	int status;

	fflush(NULL);
	pid_t pid = fork();
	check(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(run(plan, arg));
	}
	check_that(peer_reap(pid, 2 * ATTEMPT_MS, &status), "%s: hangs", name);
	check_that(WIFEXITED(status) && WEXITSTATUS(status) == ATTEMPT_DONE, "%s: status 0x%x",
		   name, (unsigned)status);
}

void attempt_prepare(const struct job_plan *plan)
{
	job_environment(plan);
	buffer_alloc(&memory.from, BYTES);
	buffer_alloc(&memory.to, BYTES * COUNT);
}
