/* SPDX-License-Identifier: Apache-2.0 */
/* The fake's faults: each occurs when and where it was ordered. */
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <support/peer.h>
#include <sys/wait.h>

static void write_well(uint32_t bytes)
{
	struct op write = op_write(&rig.b, 0, 0, bytes);

	end_do(&rig.a, &write);
}

static void write_badly(uint32_t bytes, enum ibv_wc_status status)
{
	struct op write = op_write(&rig.b, 0, 0, bytes);

	end_fails(&rig.a, &write, status);
	qp_await(&rig.a, IBV_QPS_ERR);
}

static void the_kth_fails(void)
{
	order("fault status write nth=3 status=4 device=fake0");
	write_well(64);
	write_well(64);
	memset(rig.b.memory, 0, 64);
	memset(rig.a.memory, 1, 64);
	write_badly(64, IBV_WC_LOC_PROT_ERR);
	check_int(*rig.b.memory, 0);
	ends_drop();
	ends_connect(&usual);
	write_well(64); /* only the third */
}

static void faults_know_sizes_and_devices(void)
{
	order("fault lose write max=32 device=fake0; fault status write device=fake1 status=4");
	write_well(64);
	write_badly(32, IBV_WC_RETRY_EXC_ERR);
}

static void one_is_lost_for_good(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	order("fault lose write nth=2");
	memset(rig.b.memory, 0, 256);
	memset(rig.a.memory, 1, 64);
	for (int i = 0; i < 3; i++) {
		write.remote = (uintptr_t)rig.b.memory + (uint64_t)i * 64;
		check_ok(end_post(&rig.a, &write));
	}
	end_wait(&rig.a, IBV_WC_SUCCESS);
	end_wait(&rig.a, IBV_WC_RETRY_EXC_ERR);
	end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	check_int(rig.b.memory[0], 1);
	check_int(rig.b.memory[64], 0);
	check_int(rig.b.memory[128], 0); /* no reordering */
}

static void one_is_lost_twice(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct fake_verbs_counts counts;

	order("fault drop any status=2");
	fill(rig.a.memory, 64, 1);
	write_well(64);
	check(!memcmp(rig.a.memory, rig.b.memory, 64));
	counts = counts_now();
	check_int(counts.retransmissions, 2);
	order("no-faults; fault drop any count=5"); /* each of five, once */
	end_posts(&rig.a, &write, 5);
	end_waits(&rig.a, IBV_WC_RDMA_WRITE, 5);
}

static void the_answer_is_lost(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	order("fault mute send");
	fill(rig.a.memory, 64, 2);
	end_recvs(&rig.b, 64, 2);
	check_ok(end_post(&rig.a, &send));
	end_wait_opcode(&rig.b, IBV_WC_RECV);   /* it has arrived … */
	end_wait(&rig.a, IBV_WC_RETRY_EXC_ERR); /* … without a completion */
	check(!memcmp(rig.a.memory, rig.b.memory, 64));
	check(end_is_quiet(&rig.b, 10)); /* once only */
}

static void half_of_it_arrives(void)
{
	order("fault cut write");
	memset(rig.a.memory, 1, 8192);
	memset(rig.b.memory, 0, 8192);
	write_badly(8192, IBV_WC_RETRY_EXC_ERR);
	check_int(rig.b.memory[4095], 1);
	check_int(rig.b.memory[4096], 0);
}

/* Was the end of a WRITE there before its beginning? */
static bool write_torn(size_t to_offset, uint32_t bytes)
{
	const char *to = rig.b.memory + to_offset;
	struct op write = op_write(&rig.b, 0, to_offset, bytes);
	bool torn;

	memset(rig.a.memory, 1, bytes);
	memset(rig.b.memory, 0, 64);
	check_ok(end_post(&rig.a, &write));
	while (!__atomic_load_n(&to[bytes - 1], __ATOMIC_ACQUIRE))
		;
	torn = !__atomic_load_n(to, __ATOMIC_ACQUIRE);
	end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
	check(!memcmp(rig.a.memory, to, bytes));
	check_int(to[bytes], 0);
	return torn;
}

static void the_end_comes_before_the_beginning(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a torn WRITE");

	order("fault tear write count=1000000");
	for (uint32_t bytes = 9; bytes < 40;
	     bytes += 3) /* again: this thread may not have looked */
		while (!write_torn(bytes % 8, bytes))
			deadline_turn(&deadline);
	for (uint32_t bytes = 4; bytes <= 8; bytes += 4) /* but words are whole */
		check(!write_torn(8, bytes));
}

static void write_twice(char *seen)
{
	struct op first = op_write(&rig.b, 0, 0, 8), second = op_write(&rig.b, 8, 0, 8);

	memset(rig.a.memory, 1, 8);
	memset(rig.a.memory + 8, 2, 8);
	check_ok(end_post(&rig.a, &first));
	check_ok(end_post(&rig.a, &second));
	end_waits(&rig.a, IBV_WC_RDMA_WRITE, 2);
	*seen = *rig.b.memory;
}

static void a_write_overtakes_another(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a WRITE that overtakes another");
	struct op alone = op_write(&rig.b, 0, 0, 8);
	char seen = 0;

	while (seen !=
	       1) { /* again: this thread may have been too slow for the second one to overtake */
		deadline_turn(&deadline);
		order("no-faults; fault overtake write");
		write_twice(&seen);
	}
	write_twice(&seen);
	check_int(seen, 2);
	order("fault overtake write");
	end_do(&rig.a, &alone);
	check_int(*rig.b.memory, 1);
}

static void the_last_byte_does_not_arrive(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	order("fault garble write");
	memset(rig.b.memory, 0, 64);
	memset(rig.a.memory, 1, 64);
	end_do(&rig.a, &write);
	check_int(rig.b.memory[62], 1);
	check_int(rig.b.memory[63], 0);
}

static void a_delay_keeps_the_order(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);
	double began = seconds();
	char first;

	order("fault delay write ms=60");
	memset(rig.b.memory, 0, 64);
	memset(rig.a.memory, 1, 64);
	end_posts(&rig.a, &write, 3);
	first = *rig.b.memory;
	check(!first || seconds() - began >= 0.06);
	end_waits(&rig.a, IBV_WC_RDMA_WRITE, 3);
	check(seconds() - began >= 0.06);
	check_int(*rig.b.memory, 1);
}

static void a_port_goes_down_at_the_kth(void)
{
	order("fault port-down write nth=2");
	write_well(64);
	write_badly(64, IBV_WC_RETRY_EXC_ERR);
	end_wait_event(&rig.a, IBV_EVENT_PORT_ERR);
	order("set fake0:1 state=active");
	end_wait_event(&rig.a, IBV_EVENT_PORT_ACTIVE);
	check(!end_has_event(&rig.b)); /* its port has sent nothing */
}

static void a_queue_pair_dies(void)
{
	order("fault qp-fatal write");
	check_ok(end_recv(&rig.a, 0, 64));
	write_badly(64, IBV_WC_WR_FLUSH_ERR);
	end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	end_wait_event(&rig.a, IBV_EVENT_QP_FATAL);
}

static void a_device_dies(void)
{
	struct ibv_device_attr attr;

	order("fault device-fatal write device=fake1");
	check_ok(end_recv(&rig.b, 0, 64));
	order("fatal fake1");
	end_wait_event(&rig.b, IBV_EVENT_DEVICE_FATAL);
	end_wait(&rig.b, IBV_WC_WR_FLUSH_ERR);
	write_badly(64, IBV_WC_RETRY_EXC_ERR);
	check_int(rig.verbs.query_device(rig.b.context, &attr), EIO);
	check_int(rig.verbs.query_port(rig.b.context, 1, &rig.b.port), EIO);
}

static void a_receive_fails(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	order("fault status recv nth=2 status=4 device=fake1");
	end_recvs(&rig.b, 64, 3);
	end_posts(&rig.a, &send, 2);
	end_wait(&rig.b, IBV_WC_SUCCESS);
	end_wait(&rig.b, IBV_WC_LOC_PROT_ERR);
	end_wait(&rig.b, IBV_WC_WR_FLUSH_ERR);
	end_wait(&rig.a, IBV_WC_SUCCESS);
	end_wait(&rig.a, IBV_WC_REM_OP_ERR);
}

static void a_completion_comes_late(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };

	order("fault late recv nth=2 device=fake1");
	fill(rig.a.memory, 64, 3);
	for (int i = 0; i < 3; i++)
		check_ok(end_recv(&rig.b, (size_t)i * 64, 64));
	end_posts(&rig.a, &send, 3);
	end_waits(&rig.a, IBV_WC_SEND, 2); /* the second has arrived … */
	end_wait(&rig.a, IBV_WC_RETRY_EXC_ERR);
	end_wait_opcode(&rig.b, IBV_WC_RECV);
	check(end_is_quiet(&rig.b, 10)); /* … without a completion */
	check(!memcmp(rig.a.memory, rig.b.memory + 64, 64));
	check_ok(qp_to_err(rig.b.qp));
	end_wait_opcode(&rig.b, IBV_WC_RECV);
	end_wait(&rig.b, IBV_WC_WR_FLUSH_ERR);
	check(end_is_quiet(&rig.b, 10));
}

/* The sender's completion comes at once; the receiver's come late, in order, or when the fault is cleared. */
static void a_receive_is_told_late(void)
{
	struct op send = { .opcode = IBV_WR_SEND, .bytes = 64 };
	double began = seconds();

	order("fault slow recv ms=60 device=fake1");
	end_recvs(&rig.b, 64, 4);
	end_posts(&rig.a, &send, 2);
	end_waits(&rig.a, IBV_WC_SEND, 2);
	end_waits(&rig.b, IBV_WC_RECV, 2);
	check(seconds() - began >= 0.06);
	order("fault slow recv ms=1000000 device=fake1");
	end_do(&rig.a, &send);
	check(end_is_quiet(&rig.b, 10));
	order("no-faults");
	end_wait_opcode(&rig.b, IBV_WC_RECV);
	order("fault slow recv ms=1000000 device=fake1");
	end_do(&rig.a, &send);
	check_ok(qp_to_err(rig.b.qp)); /* what came earlier is reported first */
	end_wait_opcode(&rig.b, IBV_WC_RECV);
}

static struct op op_read(const struct end *from)
{
	struct op read = op_write(from, 0, 0, 64);

	read.opcode = IBV_WR_RDMA_READ;
	return read;
}

/* With a time-out of 8 and 1 retry an answer may take some 2 ms, times the factor of `hurry`; with 18 and 7,
 * minutes. */
static void an_answer_comes_late(void)
{
	const struct terms hasty = { .timeout = 8, .retries = 1 },
			   patient = { .timeout = 18, .retries = 7 };
	struct op read = op_read(&rig.b), write = op_write(&rig.b, 64, 64, 64);
	double began;

	order("hurry 1; fault slow read ms=1000000");
	ends_connect(&hasty);
	end_fails(&rig.a, &read, IBV_WC_RETRY_EXC_ERR);
	ends_drop();
	order("fault slow read ms=60");
	ends_connect(&patient);
	fill(rig.b.memory, 64, 4);
	began = seconds();
	check_ok(end_post(&rig.a, &read));
	check_ok(end_post(&rig.a, &write));
	end_wait_opcode(&rig.a, IBV_WC_RDMA_READ);
	check(seconds() - began >= 0.06);
	end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
	check(!memcmp(rig.a.memory, rig.b.memory, 64));
}

/* As many READs are in flight as the queue pair was made for. */
static void reads_wait_for_one_another(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "READs at the same time");
	const struct terms terms = { .timeout = 18, .retries = 7, .reads = 4 };
	struct op read = op_read(&rig.b);

	ends_connect(&terms);
	order("hurry 1; fault slow read ms=100 count=1000000");
	do { /* again: the first may have been answered before this thread posted the last */
		deadline_turn(&deadline);
		end_posts(&rig.a, &read, (int)terms.reads + 1);
		end_waits(&rig.a, IBV_WC_RDMA_READ, (int)terms.reads + 1);
		check(counts_now().reads_at_once <= terms.reads);
	} while (counts_now().reads_at_once < terms.reads);
}

/* Packets vanish in one direction only: from a to b all arrives, except for the answers that b would send. */
static void one_direction_vanishes(void)
{
	struct op back = op_write(&rig.a, 0, 0, 64);

	order("vanish fake0:1 10.77.0.9; vanish fake0:1 10.77.0.2");
	memset(rig.b.memory, 1, 64);
	memset(rig.a.memory, 0, 64);
	end_fails(&rig.b, &back, IBV_WC_RETRY_EXC_ERR);
	check_int(*rig.a.memory, 1); /* it did arrive */
	write_badly(64, IBV_WC_RETRY_EXC_ERR);
	order("no-faults");
	ends_drop();
	ends_connect(&usual);
	write_well(64);
}

static void calls_fail(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct ibv_mr *mr;

	order("fault call reg_mr nth=2 errno=12; fault call post_send errno=5 device=fake0");
	mr = rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, 0);
	check(mr);
	check_ok(rig.verbs.dereg_mr(mr));
	check(!rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, 0));
	check_int(errno, ENOMEM);
	check_int(end_post(&rig.a, &write), EIO);
	write_well(64);
	order("fault call create_cq errno=12; fault call modify_qp errno=110");
	check(!rig.verbs.create_cq(rig.a.context, 16, NULL, NULL, 0));
	check_int(errno, ENOMEM);
	check_int(qp_to_err(rig.a.qp), ETIMEDOUT);
	order("fault call reg_mr errno=0 ms=30");
	double began = seconds();
	mr = rig.verbs.reg_mr(rig.a.pd, rig.a.memory, 4096, 0);
	check(seconds() - began >= 0.03);
	check_ok(rig.verbs.dereg_mr(mr));
}

static void die(int fd, void *unused)
{
	(void)fd, (void)unused;
	ends_open();
	ends_connect(&usual);
	order("fault kill write nth=2");
	write_well(64);
	write_well(64);
}

static void a_process_dies_at_the_kth(void)
{
	struct peer peer;
	int status;

	peer_start(&peer, die, NULL);
	status = peer_wait(&peer, TEST_PATIENCE_MS);
	check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_completion_queue_overruns(void)
{
	struct ibv_cq *big = rig.a.cq;
	struct op write = op_write(&rig.b, 0, 0, 64);
	int good = 0;
	struct ibv_wc wc;

	rig.a.cq = rig.verbs.create_cq(rig.a.context, 4, NULL, NULL, 0);
	check(rig.a.cq);
	ends_connect(&usual);
	for (int i = 0; i < 6; i++)
		end_post(&rig.a, &write);
	end_wait_event(&rig.a, IBV_EVENT_CQ_ERR);
	end_wait_event(&rig.a, IBV_EVENT_QP_FATAL);
	qp_await(&rig.a, IBV_QPS_ERR);
	while (ibv_poll_cq(rig.a.cq, 1, &wc) > 0)
		good++;
	check_int(good, 4);
	end_drop_qp(&rig.a);
	check_ok(rig.verbs.destroy_cq(rig.a.cq));
	rig.a.cq = big;
}

const struct selfcheck faults_checks[] = {
	{ CHECK(the_kth_fails) },
	{ CHECK(faults_know_sizes_and_devices) },
	{ CHECK(one_is_lost_for_good) },
	{ CHECK(one_is_lost_twice) },
	{ CHECK(the_answer_is_lost) },
	{ CHECK(half_of_it_arrives) },
	{ CHECK(the_end_comes_before_the_beginning) },
	{ CHECK(a_write_overtakes_another) },
	{ CHECK(the_last_byte_does_not_arrive) },
	{ CHECK(a_delay_keeps_the_order) },
	{ CHECK(a_port_goes_down_at_the_kth) },
	{ CHECK(a_queue_pair_dies) },
	{ CHECK(a_device_dies) },
	{ CHECK(a_receive_fails) },
	{ CHECK(a_completion_comes_late) },
	{ CHECK(a_receive_is_told_late) },
	{ CHECK(an_answer_comes_late), .setting = OPEN },
	{ CHECK(reads_wait_for_one_another), .setting = OPEN },
	{ CHECK(one_direction_vanishes) },
	{ CHECK(calls_fail) },
	{ CHECK(a_process_dies_at_the_kth), .setting = CLOSED },
	{ CHECK(a_completion_queue_overruns), .setting = OPEN },
	{ 0 },
};
