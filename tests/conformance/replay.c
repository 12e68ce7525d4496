/* SPDX-License-Identifier: Apache-2.0 */
/* An eavesdropper of the set-up, without a secret: whatever it replays or derives from it does not disturb the comm.
 * (With it a stream can be taken over, if it is changed well enough: docs/wire.md says so, and secret.c tests that a
 * secret prevents it.) */
#include <support/overheard.h>

#include <unistd.h>

static void set_up(struct test_net *net, struct overheard *comm)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no hello");
	overheard_open(net, comm);
}

/* The status of the answer; -1 = the connection is closed without an answer. */
static int try_hello(struct test_net *net, struct overheard *comm,
		     const struct anynet_wire_hello *hello)
{
	int fd = unauth_dial(&comm->target, 0);
	struct anynet_wire_hello answer;
	bool answered = overheard_ask(net, comm, fd, hello, &answer);

	close(fd);
	if (!answered)
		return -1;
	check_int(answer.type, ANYNET_WELCOME);
	return (int)answer.status;
}

static void replayed_hellos_are_refused(struct test_net *net)
{
	static struct overheard comm;

	set_up(net, &comm);
	for (size_t i = 0; i < comm.count; i++) {
		int status = try_hello(net, &comm, &comm.records[i].said[0]);
		check_that(status != ANYNET_STATUS_OK,
			   "the hello of connection %zu, again, is taken", i);
		overheard_check(net, &comm);
	}
	overheard_close(net, &comm);
}

static void further_streams_do_not_join(struct test_net *net)
{
	static struct overheard comm;

	set_up(net, &comm);
	for (uint16_t stream = 0; stream < ANYNET_STREAMS_MAX; stream++) {
		struct anynet_wire_hello hello = comm.records[0].said[0];
		hello.kind = ANYNET_KIND_STREAM;
		hello.stream = stream;
		check(try_hello(net, &comm, &hello) != ANYNET_STATUS_OK);
	}
	overheard_close(net, &comm);
}

/* One error at a time; the epoch is larger than the stream's. */
static void forged_resumes_are_refused(struct test_net *net)
{
	static struct overheard comm;
	struct anynet_wire_hello hello;

	set_up(net, &comm);
	hello = comm.records[0].said[0];
	hello.kind = ANYNET_KIND_RESUME;
	hello.epoch = 1000;
	for (size_t i = 0; i < sizeof(hello.token); i++) {
		hello.token[i] ^= 0x40;
		check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_GONE);
		hello.token[i] ^= 0x40;
	}
	for (int bit = 0; bit < 64; bit += 7) {
		hello.comm_id ^= 1ull << bit;
		check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_GONE);
		hello.comm_id ^= 1ull << bit;
	}
	hello.endpoint ^= 1;
	check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_GONE);
	hello.endpoint ^= 1;
	overheard_check(net, &comm);
	hello.stream = 63;
	check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_STALE);
	hello.stream = 64;
	check_int(try_hello(net, &comm, &hello), -1);
	hello.stream = 0;
	hello.epoch = comm.records[0].said[0].epoch;
	check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_STALE);
	hello.epoch -= 5;
	check_int(try_hello(net, &comm, &hello), ANYNET_STATUS_STALE);
	overheard_close(net, &comm);
}

/* It learns nothing about comms whose numbers it does not know. */
static void forged_probes_learn_nothing(struct test_net *net)
{
	static struct overheard comm;
	struct anynet_wire_hello hello;

	set_up(net, &comm);
	hello = comm.records[0].said[0];
	hello.kind = ANYNET_KIND_PROBE;
	hello.token[3] ^= 1;
	check(try_hello(net, &comm, &hello) != ANYNET_STATUS_OK);
	hello.token[3] ^= 1;
	hello.comm_id++;
	check(try_hello(net, &comm, &hello) != ANYNET_STATUS_OK);
	overheard_close(net, &comm);
}

/* The endpoint's number may have been reused; its token has not. */
static void hellos_for_a_closed_listener_are_refused(struct test_net *net)
{
	static struct overheard comm;
	struct link next;

	set_up(net, &comm);
	link_close(net, &comm.link);
	link_listen(net, &next);
	check_int(try_hello(net, &comm, &comm.records[0].said[0]), -1);
	link_finish(net, &next);
	link_check(net, &next, OVERHEARD_BYTES);
	link_close(net, &next);
	link_close(net, &comm.other);
	relay_stop(comm.relay);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "replayed_hellos_are_refused",
		  replayed_hellos_are_refused,
		  .settings = { "ANYNET_TCP_CONNECTIONS=3" } },
		{ .name = "further_streams_do_not_join", further_streams_do_not_join },
		{ .name = "forged_resumes_are_refused", forged_resumes_are_refused },
		{ .name = "forged_probes_learn_nothing", forged_probes_learn_nothing },
		{ .name = "hellos_for_a_closed_listener_are_refused",
		  hellos_for_a_closed_listener_are_refused },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
