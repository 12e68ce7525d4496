/* SPDX-License-Identifier: Apache-2.0 */
/* Loading, contexts, fork and unloading (net-api.md §1.8, §2.7, §3.11, §8 rows 3, 15 and 16). */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>
#include <support/proc.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX     1024
#define ABI_CONTEXT 11 /* the first with contexts */

static void exchange_once(struct test_net *net, uint64_t seed)
{
	unsigned char from[5000], to[5000];
	struct link link;

	link_open(net, &link);
	pattern_fill(from, sizeof(from), seed);
	check_int(link_exchange(net, &link, from, sizeof(from), to, sizeof(to)), sizeof(from));
	pattern_check(to, sizeof(to), seed);
	link_close(net, &link);
}

static void loading_again_and_again_works(struct test_net *net)
{
	for (uint64_t i = 0; i < 5; i++) {
		net_open(net);
		exchange_once(net, i);
		net_close(net);
	}
}

static void two_handles_of_one_file_work(struct test_net *net)
{
	struct test_net one = *net, other = *net;

	net_open(&one);
	net_open(&other);
	exchange_once(&one, 1);
	exchange_once(&other, 2);
	net_close(&one);
	exchange_once(&other, 3);
	net_close(&other);
}

/* One context for each communicator; they end in any order (net-api.md §1.8). */
static void contexts_end_in_any_order(struct test_net *net)
{
	struct test_net other = *net;
	struct link link;
	unsigned char from[100], to[100];

	check_ok(driver_init(net->driver, &other.ctx, 99, 3, capture_logger, NULL));
	link_open(&other, &link);
	check_ok(driver_finalize(net->driver, net->ctx));
	check_int(link_exchange(&other, &link, from, 100, to, 100), 100);
	exchange_once(&other, 4);
	check_ok(driver_init(net->driver, &net->ctx, 100, -1, capture_logger, NULL));
	link_close(&other, &link);
	check_ok(driver_finalize(net->driver, other.ctx));
	exchange_once(net, 5);
}

static void no_context_is_fine(struct test_net *net)
{
	void *ctx = net->ctx;

	net->ctx = NULL;
	exchange_once(net, 6);
	check_ok(driver_finalize(net->driver, NULL));
	exchange_once(net, 7);
	net->ctx = ctx;
}

/* NCCL 2.22 and 2.23 use a freshly loaded library without an init (net-api.md §2.7). */
static void use_without_init_works(struct test_net *net)
{
	char err[512];
	int count = 0;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets need init");
	net->driver = driver_open(net->spec, net->abi, err, sizeof(err));
	check_that(net->driver, "%s", err);
	check_ok(driver_properties(net->driver, 0, &net->props));
	check_ok(driver_devices(net->driver, &count));
	check(count > 0);
	exchange_once(net, 8);
	driver_close(net->driver);
}

/* NCCL calls init under a mutex of its own, which is not shared with other users of the file. */
static void *open_and_exchange(void *arg)
{
	struct test_net net = *(struct test_net *)arg;

	net_open(&net);
	exchange_once(&net, 9);
	net_close(&net);
	return NULL;
}

static void threads_may_open_at_the_same_time(struct test_net *net)
{
	pthread_t threads[4];

	if (net_is_builtin(net))
		check_skip("NCCL calls init of its built-in nets under a mutex of its own");
	for (size_t i = 0; i < 4; i++)
		check_ok(pthread_create(&threads[i], NULL, open_and_exchange, net));
	for (size_t i = 0; i < 4; i++)
		check_ok(pthread_join(threads[i], NULL));
}

/* --- descriptors and threads --- */

static void descriptors_close_on_exec(struct test_net *net)
{
	int before[FDS_MAX], after[FDS_MAX];
	size_t before_count = proc_fds(before, FDS_MAX), after_count;
	struct link link;

	net_open(net);
	link_open(net, &link);
	after_count = proc_fds(after, FDS_MAX);
	check(after_count > before_count);
	for (size_t i = 0; i < after_count; i++) {
		bool is_new = true;
		for (size_t k = 0; k < before_count; k++)
			is_new = is_new && after[i] != before[k];
		check_that(!is_new || net_is_builtin(net) || fcntl(after[i], F_GETFD) & FD_CLOEXEC,
			   "descriptor %d would survive exec", after[i]);
	}
	link_close(net, &link);
	net_close(net);
}

/* Nothing remains allocated after everything is closed and finalized. */
static void descriptors_are_closed(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "descriptors to be given back");
	size_t first = 0;

	if (net_is_builtin(net) || net->abi < ABI_CONTEXT)
		check_skip("there is no finalize before v%d", ABI_CONTEXT);
	for (int round = 0; round < 4; round++) {
		struct link link;
		net_open(net);
		exchange_once(net, 10);
		link_listen(net, &link);
		link_close(net, &link);
		net_close(net);
		size_t count = proc_fds(NULL, 0);
		/* A closed connection exists until the peer's kernel has received everything. */
		while (round && count > first) {
			deadline_turn(&deadline);
			count = proc_fds(NULL, 0);
		}
		first = round ? first : count;
	}
}

/* Nobody closes an abandoned connect (net-api.md §3.3): its time-out does. */
static void descriptors_of_abandoned_connects_are_closed(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "descriptors to be given back");

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets leak what is never connected");
	exchange_once(net, 11);
	size_t first = proc_fds(NULL, 0);
	for (int i = 0; i < 10; i++) {
		struct link link;
		link_listen(net, &link);
		link_connect_step(net, &link);
		link_connect_step(net, &link);
		check_ok(driver_close_listen(net->driver, link.listener));
		if (link.send)
			check_ok(driver_close_send(net->driver, link.send));
	}
	do {
		exchange_once(net, 12);
		/* A thread of the plugin may still be closing this one. */
		for (int i = 0; i < 1000 && proc_fds(NULL, 0) > first; i++)
			deadline_turn(&deadline);
	} while (proc_fds(NULL, 0) > first);
}

static uint64_t blocked_signals(int tid)
{
	char path[64], line[256];
	unsigned long long mask = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	FILE *status = fopen(path, "re");
	check(status);
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "SigBlk: %llx", &mask) == 1)
			break;
	fclose(status);
	return mask;
}

/* By name: sanitizers and emulators start threads of their own at any time. */
static bool is_ours(int tid)
{
	char path[64], name[32] = "";
	FILE *comm;
	bool ours;

	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", tid);
	comm = fopen(path, "re"); /* none: the thread has ended meanwhile */
	ours = comm && fgets(name, sizeof(name), comm) && !strncmp(name, "anynet-", 7);
	if (comm)
		fclose(comm);
	return ours;
}

static size_t own_threads(void)
{
	int tids[FDS_MAX];
	size_t count = proc_threads(tids, FDS_MAX), own = 0;

	for (size_t i = 0; i < count; i++)
		own += is_ours(tids[i]);
	return own;
}

/* Threads of the plugin must not handle the application's signals, except its fault handlers if they fault
 * themselves. */
static void threads_take_no_signals(struct test_net *net)
{
	const int wanted[] = { SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM };
	const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "faults to be let through");
	int tids[FDS_MAX];
	struct link link;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket does not block signals");
	link_open(net, &link);
	size_t count = proc_threads(tids, FDS_MAX);
	check_that(own_threads() > 0, "no I/O thread to look at");
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < 5 && is_ours(tids[i]); k++) {
			check_that(blocked_signals(tids[i]) >> (wanted[k] - 1) & 1,
				   "a thread takes signal %d", wanted[k]);
			/* The C library blocks all of them while a thread starts. */
			while (blocked_signals(tids[i]) >> (faults[k] - 1) & 1)
				deadline_turn(&deadline);
		}
	link_close(net, &link);
}

/* Except the background thread, which sleeps until the next connection. */
static void threads_end_with_the_last_comm(struct test_net *net)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "threads to end");
	struct link link, other;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket has no threads for the whole process");
	link_open(net, &link);
	link_open(net, &other);
	check(own_threads() >= 3);
	link_close(net, &link);
	link_close(net, &other);
	while (own_threads() > 1)
		deadline_turn(&deadline);
}

/* --- fork --- */

static int in_child(void (*run)(struct test_net *net, struct link *link), struct test_net *net,
		    struct link *link)
{
	int status;
	pid_t pid = fork();

	check(pid >= 0);
	if (!pid) {
		run(net, link);
		_exit(0);
	}
	check_that(peer_reap(pid, TEST_PATIENCE_MS, &status), "a forked child hangs");
	check_that(WIFEXITED(status), "a forked child died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* Every call of a child returns, and the parent's connections are not affected. */
static void call_everything(struct test_net *net, struct link *link)
{
	unsigned char handle[DRIVER_HANDLE_BYTES];
	void *ctx = NULL, *object = NULL;
	struct driver_props props;
	int count;

	capture_allow_warn();
	driver_init(net->driver, &ctx, 5, -1, capture_logger, NULL);
	driver_devices(net->driver, &count);
	driver_properties(net->driver, 0, &props);
	driver_listen(net->driver, net->ctx, 0, handle, &object);
	if (object)
		driver_close_listen(net->driver, object);
	driver_close_send(net->driver, link->send);
	driver_close_recv(net->driver, link->recv);
	driver_finalize(net->driver, net->ctx);
}

static void leave(struct test_net *net, struct link *link)
{
	(void)net;
	(void)link;
}

static void a_forked_child_does_no_harm(struct test_net *net)
{
	unsigned char from[3000], to[3000];
	struct link link;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets shut the parent's connections");
	link_open(net, &link);
	check_int(in_child(leave, net, &link), 0);
	check_int(in_child(call_everything, net, &link), 0);
	for (uint64_t i = 0; i < 5; i++) {
		pattern_fill(from, sizeof(from), i);
		check_int(link_exchange(net, &link, from, sizeof(from), to, sizeof(to)),
			  sizeof(from));
		pattern_check(to, sizeof(to), i);
	}
	link_close(net, &link);
	exchange_once(net, 12);
}

static void use_the_net(struct test_net *net, struct link *link)
{
	(void)link;
	exchange_once(net, 13);
}

/* A launcher that queries the devices and then forks its workers. */
static void a_child_may_be_the_first_to_connect(struct test_net *net)
{
	check_int(in_child(use_the_net, net, NULL), 0);
	check_int(in_child(use_the_net, net, NULL), 0);
	exchange_once(net, 14);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "loading_again_and_again_works",
		  loading_again_and_again_works,
		  .unopened = true },
		{ .name = "two_handles_of_one_file_work",
		  two_handles_of_one_file_work,
		  .unopened = true },
		{ .name = "contexts_end_in_any_order", contexts_end_in_any_order },
		{ .name = "no_context_is_fine", no_context_is_fine },
		{ .name = "use_without_init_works", use_without_init_works, .unopened = true },
		{ .name = "threads_may_open_at_the_same_time",
		  threads_may_open_at_the_same_time,
		  .unopened = true },
		{ .name = "descriptors_close_on_exec",
		  descriptors_close_on_exec,
		  .unopened = true },
		{ .name = "descriptors_are_closed",
		  descriptors_are_closed,
		  .unopened = true },
		{ .name = "descriptors_of_abandoned_connects_are_closed",
		  descriptors_of_abandoned_connects_are_closed,
		  .settings = { "ANYNET_CONNECT_TIMEOUT=2s" } },
		{ .name = "threads_take_no_signals",
		  threads_take_no_signals,
		  .settings = { "ANYNET_IO_THREADS=1" } },
		{ .name = "threads_end_with_the_last_comm",
		  threads_end_with_the_last_comm,
		  .settings = { "ANYNET_IO_THREADS=2" } },
		{ .name = "a_forked_child_does_no_harm", a_forked_child_does_no_harm },
		{ .name = "a_forked_child_does_no_harm_to_threads",
		  a_forked_child_does_no_harm,
		  .settings = { "ANYNET_IO_THREADS=1" } },
		{ .name = "a_child_may_be_the_first_to_connect",
		  a_child_may_be_the_first_to_connect },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
