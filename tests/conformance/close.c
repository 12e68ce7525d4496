/* SPDX-License-Identifier: Apache-2.0 */
/* close* calls, and peers that end (net-api.md §3.9, §3.10, §8 rows 13 and 16). */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/peer.h>

#include <nccl_net/abi/nccl_types.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024
#define MIB (1024 * 1024)

static void closing_nothing_is_fine(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in closeListen does not take NULL in every release");
	check_ok(driver_close_send(net->driver, NULL));
	check_ok(driver_close_recv(net->driver, NULL));
	check_ok(driver_close_listen(net->driver, NULL));
}

/* A comm that waits for its peer waits ANYNET_PEER_TIMEOUT, 30 s. bench/recovery.sh measures how long it takes. */
static void close_promptly(struct test_net *net, struct link *link)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "close");

	link_close(net, link);
	check_that(!deadline_passed(&deadline), "close took more than %d ms", TEST_PATIENCE_MS);
}

/* `turns` of progress, then one side is closed while the other is still open. */
static void check_close_in_flight(struct test_net *net, size_t bytes, int turns, bool send_side)
{
	enum {
		COUNT = FLOW_WINDOW_NCCL
	};
	struct transfer sends[COUNT], recvs[COUNT];
	struct buffer from, to;
	struct link link, side;

	link_open(net, &link);
	buffer_alloc(&from, bytes);
	buffer_alloc(&to, bytes * COUNT);
	for (size_t i = 0; i < COUNT; i++) {
		sends[i] = transfer_of(from.data, bytes, 0, NULL);
		recvs[i] = transfer_of(to.data + i * bytes, bytes, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = COUNT },
		{ .comm = link.recv, .transfers = recvs, .count = COUNT },
	};
	flows_run_until_posted(net, &flows[1], 1, &flows[1], COUNT);
	for (int i = 0; i < turns; i++) {
		flow_step(net, &flows[0]);
		flow_step(net, &flows[1]);
	}
	memset(&side, 0, sizeof(side));
	side.send = send_side ? link.send : NULL;
	side.recv = send_side ? NULL : link.recv;
	close_promptly(net, &side);
	link.send = send_side ? NULL : link.send;
	link.recv = send_side ? link.recv : NULL;
	close_promptly(net, &link);
	buffer_free(&from);
	buffer_free(&to);
}

static void close_with_requests_in_flight_returns(struct test_net *net)
{
	const size_t sizes[] = { 16, 4 * KIB, MIB };

	capture_allow_warn();
	for (size_t i = 0; i < 3; i++)
		for (int turns = 0; turns < 6; turns += 2) {
			check_close_in_flight(net, sizes[i], turns, true);
			check_close_in_flight(net, sizes[i], turns, false);
		}
}

/* Pending requests of the remaining end fail, and the WARN names the peer that is gone. */
static void check_left_behind(struct test_net *net, bool send_side)
{
	struct transfer transfer;
	struct buffer buffer;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	link_open(net, &link);
	capture_forget();
	buffer_alloc(&buffer, 4 * MIB);
	transfer = transfer_of(buffer.data, buffer.bytes, 0, NULL);
	struct flow flow = { .comm = send_side ? link.send : link.recv,
			     .is_send = send_side,
			     .transfers = &transfer,
			     .count = 1 };
	flows_run_until_posted(net, &flow, 1, &flow, 1);
	link_close(net, &(struct link){ .send = send_side ? NULL : link.send,
					.recv = send_side ? link.recv : NULL });
	check_int(flows_run_until_error(net, &flow, 1, &flow), ANYNET_NCCL_REMOTE_ERROR);
	if (!net_is_builtin(net)) {
		check(capture_find(CAPTURE_WARN, "127.0.0.1", line));
		check_int(capture_count(CAPTURE_WARN, NULL), 1);
	}
	close_promptly(net, &(struct link){ .send = send_side ? link.send : NULL,
					    .recv = send_side ? NULL : link.recv });
	buffer_free(&buffer);
}

static void the_end_left_behind_gets_an_error(struct test_net *net)
{
	capture_allow_warn();
	check_left_behind(net, true);
	check_left_behind(net, false);
}

/* A receiver without posted receives logs nothing when its peer closes properly. */
static void a_proper_close_is_no_error(struct test_net *net)
{
	struct link link;

	for (int i = 0; i < 20; i++) {
		link_open(net, &link);
		link_check(net, &link, 1000);
		link_close(net, &(struct link){ .send = link.send });
		link.send = NULL;
		close_promptly(net, &link);
	}
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
}

/* --- what was sent before the end --- */

#define LAST_MESSAGES 8
#define LAST_BYTES    400 /* small enough to be copied by every transport */

/* In host memory: a net need not copy GPU memory. */
static void post_and_finish_last(struct test_net *net, void *scomm)
{
	static unsigned char data[LAST_MESSAGES][LAST_BYTES];
	static struct transfer sends[LAST_MESSAGES];

	for (size_t i = 0; i < LAST_MESSAGES; i++) {
		pattern_fill(data[i], LAST_BYTES, i);
		sends[i] = transfer_of(data[i], LAST_BYTES, 1, NULL);
	}
	struct flow flow = {
		.comm = scomm, .is_send = true, .transfers = sends, .count = LAST_MESSAGES
	};
	flows_run(net, &flow, 1);
	memset(data, 0xff, sizeof(data)); /* done: NCCL may reuse the buffer */
}

static void receive_last(struct test_net *net, void *rcomm)
{
	static struct transfer recvs[LAST_MESSAGES];
	struct buffer buffer;

	buffer_alloc(&buffer, (size_t)LAST_MESSAGES * LAST_BYTES);
	for (size_t i = 0; i < LAST_MESSAGES; i++)
		recvs[i] = transfer_of(buffer.data + i * LAST_BYTES, LAST_BYTES, 1, NULL);
	struct flow flow = { .comm = rcomm, .transfers = recvs, .count = LAST_MESSAGES };
	flows_run(net, &flow, 1);
	for (size_t i = 0; i < LAST_MESSAGES; i++) {
		check_int(recvs[i].sizes[0], LAST_BYTES);
		pattern_check(buffer.data + i * LAST_BYTES, LAST_BYTES, i);
	}
	buffer_free(&buffer);
}

/* Sends reported as done arrive, even if the receiver polls only after the sender has closed. */
static void sent_data_arrives_after_close(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	link_check_host(net, &link, 8);
	post_and_finish_last(net, link.send);
	link_close(net, &(struct link){ .send = link.send });
	link.send = NULL;
	receive_last(net, link.recv);
	link_close(net, &link);
}

/* Most sends are done and lie in the sender's kernel, because the receiver is slow. The receiver has sent
 * acknowledgements that the sender has not read when it closes. */
static void done_sends_arrive_from_a_full_socket(struct test_net *net)
{
	enum {
		COUNT = 100,
		BYTES = 4000,
		READ = 20
	};
	static struct transfer sends[COUNT], recvs[COUNT];
	struct buffer from, to;
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the sends to be done");
	struct link link;

	link_open(net, &link);
	buffer_alloc(&from, (size_t)COUNT * BYTES);
	buffer_alloc(&to, (size_t)COUNT * BYTES);
	for (size_t i = 0; i < COUNT; i++) {
		pattern_fill(from.data + i * BYTES, BYTES, i);
		sends[i] = transfer_of(from.data + i * BYTES, BYTES, 0, NULL);
		recvs[i] = transfer_of(to.data + i * BYTES, BYTES, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = COUNT },
		{ .comm = link.recv, .transfers = recvs, .count = COUNT },
	};
	/* The receiver is polled only when the sender makes no progress. */
	while (flows[0].done < COUNT) {
		size_t done = flows[0].done;
		flow_step(net, &flows[0]);
		if (flows[0].done == done)
			flow_step(net, &flows[1]);
		check_int(flows[0].error, 0);
		deadline_turn(&deadline);
	}
	buffer_blank(&from);
	for (size_t until = flows[1].done + READ; flows[1].done < until && flows[1].done < COUNT;) {
		flow_step(net, &flows[1]);
		deadline_turn(&deadline);
	}
	link_close(net, &(struct link){ .send = link.send });
	link.send = NULL;
	flows_run(net, &flows[1], 1);
	for (size_t i = 0; i < COUNT; i++)
		pattern_check(to.data + i * BYTES, BYTES, i);
	link_close(net, &link);
	buffer_free(&from);
	buffer_free(&to);
}

static void send_and_exit(int fd, void *arg)
{
	struct test_net *net = arg;
	struct link link;

	net_open(net);
	link_open_sends(net, &link, 1, fd);
	post_and_finish_last(net, link.send);
	link_close(net, &link);
	net_close(net);
}

static void sent_data_arrives_after_exit(struct test_net *net)
{
	struct peer peer;
	struct link link;

	peer_start(&peer, send_and_exit, net);
	net_open(net);
	link_open_recvs(net, &link, 1, peer.fd);
	check_int(peer_wait(&peer, TEST_PATIENCE_MS), 0);
	receive_last(net, link.recv);
	link_close(net, &link);
	net_close(net);
}

/* --- peers that die --- */

struct doomed {
	struct test_net *net;
	bool is_sender;
	bool exits; /* exits without closing anything; else waits to be killed */
};

/* Posts 8 large messages and polls them until the process dies. */
static void move_until_dead(int fd, void *arg)
{
	static struct transfer transfers[1000];
	struct doomed *doomed = arg;
	struct buffer buffer;
	struct link link;

	net_open(doomed->net);
	buffer_alloc(&buffer, MIB);
	if (doomed->is_sender)
		link_open_sends(doomed->net, &link, 1, fd);
	else
		link_open_recvs(doomed->net, &link, 1, fd);
	for (size_t i = 0; i < 1000; i++)
		transfers[i] = transfer_of(buffer.data, buffer.bytes, 0, NULL);
	struct flow flow = { .comm = doomed->is_sender ? link.send : link.recv,
			     .is_send = doomed->is_sender,
			     .transfers = transfers,
			     .count = 1000 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the end");
	for (bool told = false;; deadline_turn(&deadline)) {
		flow_step(doomed->net, &flow);
		check_int(flow.error, 0);
		if (flow.done < 2 || told)
			continue;
		peer_signal(fd);
		told = true;
		if (doomed->exits)
			_exit(0);
	}
}

static void check_death(struct test_net *net, bool peer_sends, bool peer_exits)
{
	static struct transfer transfers[1000];
	struct buffer buffer;
	struct doomed doomed = { net, peer_sends, peer_exits };
	struct peer peer;
	struct link link;
	char line[CAPTURE_LINE_BYTES];

	peer_start(&peer, move_until_dead, &doomed);
	net_open(net);
	capture_allow_warn();
	buffer_alloc(&buffer, MIB);
	if (peer_sends)
		link_open_recvs(net, &link, 1, peer.fd);
	else
		link_open_sends(net, &link, 1, peer.fd);
	for (size_t i = 0; i < 1000; i++)
		transfers[i] = transfer_of(buffer.data, buffer.bytes, 0, NULL);
	struct flow flow = { .comm = peer_sends ? link.recv : link.send,
			     .is_send = !peer_sends,
			     .transfers = transfers,
			     .count = 1000 };
	struct deadline moving = deadline_in(TEST_PATIENCE_MS, "messages before the peer's death");
	for (; flow.done < 10 && !flow.error; deadline_turn(&moving))
		flow_step(net, &flow);
	if (peer_exits) {
		peer_await(peer.fd);
		check_int(peer_wait(&peer, TEST_PATIENCE_MS), 0);
	} else {
		peer_kill(&peer);
	}
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the peer's death to be seen");
	while (!flow.error) {
		flow_step(net, &flow);
		deadline_turn(&deadline);
	}
	check_int(flow.error, ANYNET_NCCL_REMOTE_ERROR);
	if (!net_is_builtin(net)) {
		check(capture_find(CAPTURE_WARN, "127.0.0.1", line));
		check_int(capture_count(CAPTURE_WARN, NULL), 1);
		/* All pending requests fail, and all new ones. */
		for (size_t i = flow.done; i < flow.posted; i++) {
			int ret = transfer_test(net, &transfers[i]);
			if (ret || !transfers[i].done)
				check_int(ret, ANYNET_NCCL_REMOTE_ERROR);
		}
		struct transfer late = transfer_of(buffer.data, 10, 0, NULL);
		check_int(transfer_post(net, flow.comm, flow.is_send, &late),
			  ANYNET_NCCL_REMOTE_ERROR);
		check_int(capture_count(CAPTURE_WARN, NULL), 1);
	}
	close_promptly(net, &link);
	buffer_free(&buffer);
	net_close(net);
}

static void a_killed_sender_is_an_error(struct test_net *net)
{
	check_death(net, true, false);
}

static void a_killed_receiver_is_an_error(struct test_net *net)
{
	check_death(net, false, false);
}

static void a_sender_that_exits_is_an_error(struct test_net *net)
{
	check_death(net, true, true);
}

static void a_receiver_that_exits_is_an_error(struct test_net *net)
{
	check_death(net, false, true);
}

/* --- a peer that is alive and does nothing --- */

static void connect_and_freeze(int fd, void *arg)
{
	struct test_net *net = arg;
	struct link links[2];

	net_open(net);
	link_open_sends(net, &links[0], 1, fd);
	link_open_recvs(net, &links[1], 1, fd);
	peer_signal(fd);
	for (;;)
		pause();
}

static void close_does_not_wait_for_a_frozen_peer(struct test_net *net)
{
	struct transfer recv, sends[8];
	struct buffer buffer;
	struct link links[2];
	struct peer peer;

	peer_start(&peer, connect_and_freeze, net);
	net_open(net);
	link_open_recvs(net, &links[0], 1, peer.fd);
	link_open_sends(net, &links[1], 1, peer.fd);
	peer_await(peer.fd);
	kill(peer.pid, SIGSTOP);
	buffer_alloc(&buffer, 8 * MIB);
	recv = transfer_of(buffer.data, MIB, 0, NULL);
	for (size_t i = 0; i < 8; i++)
		sends[i] = transfer_of(buffer.data, i ? buffer.bytes : 100, 0, NULL);
	struct flow flows[] = {
		{ .comm = links[0].recv, .transfers = &recv, .count = 1 },
		{ .comm = links[1].send, .is_send = true, .transfers = sends, .count = 8 },
	};
	for (int i = 0; i < 100; i++) {
		flow_step(net, &flows[0]);
		flow_step(net, &flows[1]);
	}
	close_promptly(net, &links[0]);
	close_promptly(net, &links[1]);
	buffer_free(&buffer);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "finalize");
	net_close(net);
	check(!deadline_passed(&deadline));
	peer_kill(&peer);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "closing_nothing_is_fine", closing_nothing_is_fine },
		{ .name = "close_with_requests_in_flight_returns",
		  close_with_requests_in_flight_returns },
		{ .name = "the_end_left_behind_gets_an_error", the_end_left_behind_gets_an_error },
		{ .name = "a_proper_close_is_no_error", a_proper_close_is_no_error },
		{ .name = "sent_data_arrives_after_close", sent_data_arrives_after_close },
		{ .name = "done_sends_arrive_from_a_full_socket",
		  done_sends_arrive_from_a_full_socket,
		  .settings = { "ANYNET_TCP_SNDBUF=256k", "ANYNET_TCP_RCVBUF=4k",
				"ANYNET_TCP_REPLAY=256k" } },
		{ .name = "sent_data_arrives_after_exit",
		  sent_data_arrives_after_exit,
		  .unopened = true },
		{ .name = "a_killed_sender_is_an_error",
		  a_killed_sender_is_an_error,
		  .unopened = true },
		{ .name = "a_killed_receiver_is_an_error",
		  a_killed_receiver_is_an_error,
		  .unopened = true },
		{ .name = "a_sender_that_exits_is_an_error",
		  a_sender_that_exits_is_an_error,
		  .unopened = true },
		{ .name = "a_receiver_that_exits_is_an_error",
		  a_receiver_that_exits_is_an_error,
		  .unopened = true },
		{ .name = "close_does_not_wait_for_a_frozen_peer",
		  close_does_not_wait_for_a_frozen_peer,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
