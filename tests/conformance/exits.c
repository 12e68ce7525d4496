/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that exit: data reported as done arrives, and exit returns, whatever other threads do meanwhile. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGES 5
#define BYTES    60000 /* the receiver acknowledges the first of them while others are in flight */
#define LATE_S   2     /* between the close of the sender and the start of the receiver */
#define THREADS  3
#define EXITS    40
#define AWAY_US  3000 /* longest time from the start of the threads to exit */

/* --- orderly ends --- */

static void send_and_exit(int fd, struct test_net *net, bool closes)
{
	struct transfer sends[MESSAGES];
	struct buffer from;
	struct link link;

	net_open(net);
	link_open_sends(net, &link, 1, fd);
	buffer_alloc(&from, (size_t)MESSAGES * BYTES);
	for (size_t i = 0; i < MESSAGES; i++) {
		pattern_fill(from.data + i * BYTES, BYTES, i);
		sends[i] = transfer_of(from.data + i * BYTES, BYTES, 0, NULL);
	}
	struct flow flow = {
		.comm = link.send, .is_send = true, .transfers = sends, .count = MESSAGES
	};
	flows_run(net, &flow, 1);
	if (closes) {
		link_close(net, &link);
		net_close(net);
	}
	peer_signal(fd);
	exit(0);
}

static void send_close_and_exit(int fd, void *net)
{
	send_and_exit(fd, net, true);
}

static void send_and_only_exit(int fd, void *net)
{
	send_and_exit(fd, net, false);
}

static void receive_late(int fd, void *arg)
{
	struct transfer recvs[MESSAGES];
	struct test_net *net = arg;
	struct buffer to;
	struct link link;

	net_open(net);
	link_open_recvs(net, &link, 1, fd);
	buffer_alloc(&to, (size_t)MESSAGES * BYTES);
	for (size_t i = 0; i < MESSAGES; i++)
		recvs[i] = transfer_of(to.data + i * BYTES, BYTES, 0, NULL);
	peer_await(fd);
	nanosleep(&(struct timespec){ .tv_sec = LATE_S }, NULL);
	struct flow flow = { .comm = link.recv, .transfers = recvs, .count = MESSAGES };
	flows_run(net, &flow, 1);
	for (size_t i = 0; i < MESSAGES; i++) {
		check_int(recvs[i].sizes[0], BYTES);
		pattern_check(to.data + i * BYTES, BYTES, i);
	}
	link_close(net, &link);
	net_close(net);
	exit(0);
}

static void skip_where_sends_wait(const struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip(
			"NCCL's built-in Socket reports sends done that the peer's kernel may not have");
	if (getenv("FAKE_VERBS"))
		check_skip("over queue pairs such sends are done when they have arrived");
}

/* Taken by this side's socket, so done before the peer has read anything. A closed socket answers the receiver's
 * acknowledgement with a reset, and discards its unsent data. */
static void data_sent_before_exit_arrives(struct test_net *net)
{
	skip_where_sends_wait(net);
	peer_duo(receive_late, send_close_and_exit, net);
}

/* … also if the program does not destroy its communicators. */
static void data_sent_before_exit_arrives_without_close(struct test_net *net)
{
	skip_where_sends_wait(net);
	peer_duo(receive_late, send_and_only_exit, net);
}

#define SOON_MS 5000 /* for an exit; what is not confirmed is waited for twice as long */
#define SMALL   8    /* bytes */

/* Everything that was sent has been received. */
_Noreturn static void exchange_and_exit(struct test_net *net, size_t messages)
{
	uint8_t from[MESSAGES][SMALL], to[MESSAGES][SMALL];
	struct transfer sends[MESSAGES], recvs[MESSAGES];
	struct link link;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_set_report(NULL);
	net_open(net);
	link_open(net, &link);
	for (size_t i = 0; i < messages; i++) {
		pattern_fill(from[i], SMALL, i);
		sends[i] = transfer_of(from[i], SMALL, 0, NULL);
		recvs[i] = transfer_of(to[i], SMALL, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = messages },
		{ .comm = link.recv, .transfers = recvs, .count = messages },
	};
	if (messages)
		flows_run(net, flows, 2);
	exit(0);
}

/* Also where a queue pair has reported nothing yet of the last small messages, or of the comm's first frame. */
static void exit_without_close_does_not_wait_for_an_idle_comm(struct test_net *net)
{
	static const size_t counts[] = { 0, 1, MESSAGES };

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		int status;
		pid_t pid = fork();

		check(pid >= 0);
		if (!pid)
			exchange_and_exit(net, counts[i]);
		check_that(peer_reap(pid, SOON_MS, &status), "the exit after %zu messages waits",
			   counts[i]);
		check_int(status, 0);
	}
}

/* --- exit while threads are in calls --- */

static void *open_and_close(void *arg)
{
	struct test_net *net = arg;

	for (;;) {
		struct link link;

		link_open(net, &link);
		link_close(net, &link);
	}
	return NULL;
}

static bool threads_run;

/* LeakSanitizer asks at exit. It stops threads where they are, and crashes if one is just starting or ending. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
	return threads_run;
}

/* How a process ends, and the status that its parent gets. */
static void by_exit(void)
{
	exit(0);
}

static void by_exit_at_once(void)
{
	_exit(0);
}

static void by_quick_exit(void)
{
	quick_exit(0);
}

static void by_abort(void)
{
	abort();
}

static void by_sigterm(void)
{
	kill(getpid(), SIGTERM);
	for (;;)
		pause();
}

static const struct end {
	void (*end)(void);
	int status; /* status of waitpid */
} ends[] = {
	{ by_exit, 0 },        { by_exit_at_once, 0 },  { by_quick_exit, 0 },
	{ by_abort, SIGABRT }, { by_sigterm, SIGTERM },
};
#define ENDS (sizeof(ends) / sizeof(ends[0]))

_Noreturn static void end_in_the_middle(struct test_net *net, unsigned round, const struct end *end)
{
	struct timespec away = { .tv_nsec = (long)(round * 1000003u % (AWAY_US * 1000u)) };
	pthread_t thread;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_set_report(NULL);
	net_open(net);
	threads_run = true;
	for (int i = 0; i < THREADS; i++)
		check_ok(pthread_create(&thread, NULL, open_and_close, net));
	nanosleep(&away, NULL);
	end->end();
	abort();
}

static void end_beside_threads(struct test_net *net, const struct end *end, unsigned rounds)
{
	for (unsigned round = 0; round < rounds; round++) {
		int status;
		pid_t pid = fork();

		check(pid >= 0);
		if (!pid)
			end_in_the_middle(net, round, end);
		check_that(peer_reap(pid, TEST_PATIENCE_MS, &status), "the end hangs in round %u",
			   round);
		check_that((status & ~0x80) == end->status, "round %u ended with status %#x", round,
			   (unsigned)status); /* 0x80: a core file */
	}
}

/* The results of the threads' calls do not matter, as long as they neither crash nor delay the exit. */
static void exit_returns_while_threads_are_in_calls(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no thread that ends with the process");
	end_beside_threads(net, &ends[0], EXITS);
}

static void other_exits_return_while_threads_are_in_calls(struct test_net *net)
{
	const struct rlimit none = { 0, 0 };

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no thread that ends with the process");
	check_ok(setrlimit(RLIMIT_CORE, &none));
	for (size_t i = 1; i < ENDS; i++)
		end_beside_threads(net, &ends[i], EXITS / ENDS);
}

static const struct test_case cases[] = {
	{ .name = "data_sent_before_exit_arrives",
	  .run = data_sent_before_exit_arrives,
	  .unopened = true,
	  .settings = { "ANYNET_TCP_REPLAY=512k", "ANYNET_TCP_EAGER=64k", "ANYNET_TCP_RCVBUF=4k",
			"ANYNET_TCP_SNDBUF=4m" } },
	{ .name = "data_sent_before_exit_arrives_without_close",
	  .run = data_sent_before_exit_arrives_without_close,
	  .unopened = true,
	  .settings = { "ANYNET_TCP_REPLAY=512k", "ANYNET_TCP_EAGER=64k", "ANYNET_TCP_RCVBUF=4k",
			"ANYNET_TCP_SNDBUF=4m" } },
	{ .name = "exit_without_close_does_not_wait_for_an_idle_comm",
	  .run = exit_without_close_does_not_wait_for_an_idle_comm,
	  .unopened = true },
	{ .name = "exit_returns_while_threads_are_in_calls",
	  .run = exit_returns_while_threads_are_in_calls,
	  .unopened = true },
	{ .name = "other_exits_return_while_threads_are_in_calls",
	  .run = other_exits_return_while_threads_are_in_calls,
	  .unopened = true },
};

int main(int argc, char **argv)
{
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
