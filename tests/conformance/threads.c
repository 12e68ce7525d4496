/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators side by side in one process, each with NCCL's two threads: a service thread that connects, registers
 * and closes, and a progress thread that transfers messages (net-api.md §3.1). */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/memory.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define RANKS    3
#define LINKS    3 /* a rank connected to itself */
#define ROUNDS   4
#define MESSAGES 40
#define BYTES    70000

struct rank {
	struct test_net net; /* with a context of its own from v11 on */
	struct link links[LINKS];
	struct transfer sends[LINKS][MESSAGES], recvs[LINKS][MESSAGES];
	unsigned char *from, *to; /* LINKS × MESSAGES × BYTES */
	atomic_int links_up;      /* the progress thread may use these */
	unsigned index;
};

static unsigned char *slot(unsigned char *base, size_t link, size_t message)
{
	return base + (link * MESSAGES + message) * BYTES;
}

static size_t message_bytes(size_t message)
{
	return message * 1777 % (BYTES + 1);
}

/* Transfers the messages of a link once it is established, while others are still connecting. */
static void *progress_thread(void *arg)
{
	struct rank *rank = arg;
	struct flow flows[2 * LINKS];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "messages of all links");

	for (size_t i = 0; i < LINKS; i++) {
		flows[2 * i] = (struct flow){ .is_send = true,
					      .transfers = rank->sends[i],
					      .count = MESSAGES };
		flows[2 * i + 1] = (struct flow){ .transfers = rank->recvs[i], .count = MESSAGES };
	}
	for (bool over = false; !over;) {
		size_t up = (size_t)atomic_load(&rank->links_up);
		over = up == LINKS;
		for (size_t i = 0; i < up; i++) {
			flows[2 * i].comm = rank->links[i].send;
			flows[2 * i + 1].comm = rank->links[i].recv;
			over = flow_step(&rank->net, &flows[2 * i]) && over;
			over = flow_step(&rank->net, &flows[2 * i + 1]) && over;
			check_int(flows[2 * i].error, 0);
			check_int(flows[2 * i + 1].error, 0);
		}
		deadline_turn(&deadline);
	}
	return NULL;
}

static void register_link(struct rank *rank, size_t i)
{
	void *send_mr = flow_reg(&rank->net, rank->links[i].send, slot(rank->from, i, 0),
				 (size_t)MESSAGES * BYTES);
	void *recv_mr = flow_reg(&rank->net, rank->links[i].recv, slot(rank->to, i, 0),
				 (size_t)MESSAGES * BYTES);

	for (size_t m = 0; m < MESSAGES; m++) {
		size_t bytes = message_bytes(m);
		pattern_fill(slot(rank->from, i, m), bytes, rank->index * 1000 + i * 100 + m);
		rank->sends[i][m] = transfer_of(slot(rank->from, i, m), bytes, 0, send_mr);
		rank->recvs[i][m] = transfer_of(slot(rank->to, i, m), BYTES, 0, recv_mr);
	}
}

static void check_link(struct rank *rank, size_t i)
{
	for (size_t m = 0; m < MESSAGES; m++) {
		check_int(rank->recvs[i][m].sizes[0], message_bytes(m));
		pattern_check(slot(rank->to, i, m), message_bytes(m),
			      rank->index * 1000 + i * 100 + m);
	}
}

static void one_round(struct rank *rank)
{
	pthread_t progress;

	atomic_store(&rank->links_up, 0);
	check_ok(pthread_create(&progress, NULL, progress_thread, rank));
	for (size_t i = 0; i < LINKS; i++) {
		link_open(&rank->net, &rank->links[i]);
		register_link(rank, i);
		atomic_store(&rank->links_up, (int)i + 1);
	}
	check_ok(pthread_join(progress, NULL));
	for (size_t i = 0; i < LINKS; i++) {
		check_link(rank, i);
		check_ok(driver_dereg_mr(rank->net.driver, rank->links[i].send,
					 rank->sends[i][0].mhandles[0]));
		check_ok(driver_dereg_mr(rank->net.driver, rank->links[i].recv,
					 rank->recvs[i][0].mhandles[0]));
		link_close(&rank->net, &rank->links[i]);
	}
}

static void *service_thread(void *arg)
{
	struct rank *rank = arg;

	net_open(&rank->net);
	rank->from = memory_alloc((size_t)LINKS * MESSAGES * BYTES);
	rank->to = memory_alloc((size_t)LINKS * MESSAGES * BYTES);
	for (int round = 0; round < ROUNDS; round++)
		one_round(rank);
	memory_free(rank->from);
	memory_free(rank->to);
	return NULL;
}

static void communicators_work_side_by_side(struct test_net *net)
{
	static struct rank ranks[RANKS];
	pthread_t threads[RANKS];

	net_open(net); /* NCCL calls init under a mutex of its own */
	for (unsigned i = 0; i < RANKS; i++) {
		ranks[i].net = *net;
		ranks[i].index = i;
		check_ok(pthread_create(&threads[i], NULL, service_thread, &ranks[i]));
	}
	for (unsigned i = 0; i < RANKS; i++)
		check_ok(pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < RANKS; i++)
		net_close(&ranks[i].net);
	net_close(net);
}

/* A large message on one comm and small ones on another, each with its own thread; the ends of a comm in different
 * threads, too. */
struct end {
	struct test_net *net;
	struct flow flow;
};

static void *run_end(void *arg)
{
	struct end *end = arg;
	flows_run(end->net, &end->flow, 1);
	return NULL;
}

static void ends_of_a_comm_may_have_threads_of_their_own(struct test_net *net)
{
	enum {
		COMMS = 2,
		COUNT = 100,
		ROOMS = 8,
		LARGE = 300000
	};
	static struct transfer transfers[2 * COMMS][COUNT];
	struct buffer from[COMMS], to[COMMS][ROOMS];
	struct link links[COMMS];
	struct end ends[2 * COMMS];
	pthread_t threads[2 * COMMS];

	for (size_t c = 0; c < COMMS; c++) {
		size_t bytes = c ? 100 : LARGE;
		link_open(net, &links[c]);
		buffer_alloc(&from[c], bytes);
		for (size_t i = 0; i < ROOMS; i++)
			buffer_alloc(&to[c][i], bytes);
		pattern_fill(from[c].data, bytes, c);
		for (size_t i = 0; i < COUNT; i++) {
			transfers[2 * c][i] = transfer_of(from[c].data, bytes, 0, NULL);
			transfers[2 * c + 1][i] =
				transfer_of(to[c][i % ROOMS].data, bytes, 0, NULL);
		}
		ends[2 * c] = (struct end){ net, { .comm = links[c].send, .is_send = true } };
		ends[2 * c + 1] = (struct end){ net, { .comm = links[c].recv } };
	}
	for (size_t e = 0; e < 2 * COMMS; e++) {
		ends[e].flow.transfers = transfers[e];
		ends[e].flow.count = COUNT;
		check_ok(pthread_create(&threads[e], NULL, run_end, &ends[e]));
	}
	for (size_t e = 0; e < 2 * COMMS; e++)
		check_ok(pthread_join(threads[e], NULL));
	for (size_t c = 0; c < COMMS; c++) {
		for (size_t i = 0; i < ROOMS; i++) {
			pattern_check(to[c][i].data, c ? 100 : LARGE, c);
			buffer_free(&to[c][i]);
		}
		buffer_free(&from[c]);
		link_close(net, &links[c]);
	}
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "communicators_work_side_by_side",
		  communicators_work_side_by_side,
		  .unopened = true },
		{ .name = "communicators_work_side_by_side_with_io_threads",
		  communicators_work_side_by_side,
		  .unopened = true,
		  .settings = { "ANYNET_IO_THREADS=2" } },
		{ .name = "ends_of_a_comm_may_have_threads_of_their_own",
		  ends_of_a_comm_may_have_threads_of_their_own },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
