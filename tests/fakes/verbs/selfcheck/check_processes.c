/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: what is written arrives without the other one's help, and what happens when it dies.
 * The other one has the second device and does as it is told over a socket, and nothing else. */
#include "rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIG   (1u << 20)
#define POSTS 8

enum order_kind {
	SHOW,    /* the first bytes of your memory */
	FILL,    /* them */
	RECEIVE, /* post one */
	WRITE,   /* to me */
	LEAVE,
};

struct log_limit {
	enum order_kind kind;
	char bytes[64];
};

struct other {
	pid_t pid;
	int fd;
	struct address_card card;
};

static void say(int fd, const void *what, size_t bytes)
{
	if (send(fd, what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		fail_msg("the other process cannot be told: %s", strerror(errno));
}

static void hear(int fd, void *what, size_t bytes)
{
	if (recv(fd, what, bytes, MSG_WAITALL) != (ssize_t)bytes)
		fail_msg("the other process says nothing: %s", strerror(errno));
}

static void obey_one(struct end *end, const struct address_card *card, struct log_limit *told)
{
	struct op write = {
		.opcode = IBV_WR_RDMA_WRITE, .bytes = 64, .rkey = card->rkey, .remote = card->addr
	};

	if (told->kind == SHOW)
		memcpy(told->bytes, end->memory, sizeof(told->bytes));
	else if (told->kind == FILL)
		memcpy(end->memory, told->bytes, sizeof(told->bytes));
	else if (told->kind == RECEIVE)
		assert_int_equal(end_recv(end, 0, 4096), 0);
	if (told->kind == WRITE) {
		assert_int_equal(end_post(end, &write), 0);
		end_wait_opcode(end, IBV_WC_RDMA_WRITE);
	}
}

static void end_at_once(int sig)
{
	(void)sig;
	_exit(1);
}

/* A failed assert would go on with the parent's tests, in this process: it is to abort. */
static void asserts_end_the_process(void)
{
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	signal(SIGABRT, end_at_once);
}

static _Noreturn void be_the_other(int fd)
{
	struct terms terms = { .timeout = 0 };
	struct address_card card;
	struct log_limit told = { .kind = SHOW };
	struct end end;

	asserts_end_the_process();
	end_open(&end, rig.devices[1]);
	end_make_qp(&end, &terms);
	card = end_card(&end);
	say(fd, &card, sizeof(card));
	hear(fd, &card, sizeof(card));
	end_connect(&end, &card, &terms);
	do {
		say(fd, &told, sizeof(told));
		hear(fd, &told, sizeof(told));
		obey_one(&end, &card, &told);
	} while (told.kind != LEAVE);
	end_close(&end);
	expect_nothing_open();
	_exit(0);
}

/* The end here is connected to it afterwards. */
static struct other start_other(struct end *end)
{
	struct terms terms = { .timeout = 0 };
	struct address_card card;
	struct other other;
	struct log_limit told;
	int fds[2];

	fflush(stdout);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	other.pid = fork();
	assert_true(other.pid >= 0);
	if (!other.pid) {
		close(fds[0]);
		be_the_other(fds[1]);
	}
	close(fds[1]);
	other.fd = fds[0];
	hear(other.fd, &other.card, sizeof(other.card));
	end_open(end, rig.devices[0]);
	end_make_qp(end, &terms);
	card = end_card(end);
	say(other.fd, &card, sizeof(card));
	end_connect(end, &other.card, &terms);
	hear(other.fd, &told, sizeof(told));
	return other;
}

static struct log_limit tell(const struct other *other, enum order_kind kind, char byte)
{
	struct log_limit told = { .kind = kind };

	memset(told.bytes, byte, sizeof(told.bytes));
	say(other->fd, &told, sizeof(told));
	hear(other->fd, &told, sizeof(told));
	return told;
}

static void leave(const struct other *other, struct end *end)
{
	struct log_limit told = { .kind = LEAVE };
	int status;

	say(other->fd, &told, sizeof(told));
	assert_int_equal(waitpid(other->pid, &status, 0), other->pid);
	assert_int_equal(status, 0);
	close(other->fd);
	end_close(end);
	expect_nothing_open();
}

static struct op op_to(const struct other *other, enum ibv_wr_opcode opcode, uint32_t bytes)
{
	return (struct op){ .opcode = opcode,
			    .bytes = bytes,
			    .rkey = other->card.rkey,
			    .remote = other->card.addr };
}

static void test_writes_land_by_themselves(void **state)
{
	struct end end;
	struct other other = start_other(&end);
	struct op write = op_to(&other, IBV_WR_RDMA_WRITE, BIG);
	struct log_limit told;

	(void)state;
	fill(end.memory, BIG, 1);
	for (int i = 0; i < POSTS; i++)
		assert_int_equal(end_post(&end, &write), 0);
	for (int i = 0; i < POSTS; i++)
		end_wait_opcode(&end, IBV_WC_RDMA_WRITE);
	told = tell(&other, SHOW, 0);
	assert_memory_equal(told.bytes, end.memory, sizeof(told.bytes));
	/* all of it, by way of a READ */
	write.opcode = IBV_WR_RDMA_READ;
	write.offset = BIG;
	assert_int_equal(end_post(&end, &write), 0);
	end_wait_opcode(&end, IBV_WC_RDMA_READ);
	assert_memory_equal(end.memory, end.memory + BIG, BIG);
	leave(&other, &end);
}

static void test_the_end_may_land_first(void **state)
{
	double until = seconds() + PATIENCE;
	struct log_limit told = { .bytes = "" };
	struct op write;
	struct other other;
	struct end end;

	(void)state;
	if (!rig.control.script) {
		printf("SKIP a device that takes no orders writes in which order it likes\n");
		skip();
	}
	other = start_other(&end);
	write = op_to(&other, IBV_WR_RDMA_WRITE, sizeof(told.bytes));
	order("fault tear write count=1000000");
	memset(end.memory, 1, sizeof(told.bytes));
	while (told.bytes[0] || !told.bytes[63]) { /* again: nobody may have looked in time */
		assert_true(seconds() < until);
		tell(&other, FILL, 0);
		assert_int_equal(end_post(&end, &write), 0);
		told = tell(&other, SHOW, 0);
		end_wait_opcode(&end, IBV_WC_RDMA_WRITE);
	}
	told = tell(&other, SHOW, 0);
	assert_memory_equal(told.bytes, end.memory, sizeof(told.bytes));
	order("no-faults");
	leave(&other, &end);
}

static void test_both_ways(void **state)
{
	struct end end;
	struct other other = start_other(&end);
	struct op send = op_to(&other, IBV_WR_SEND, 64);
	struct log_limit told;

	(void)state;
	tell(&other, FILL, 'f');
	tell(&other, WRITE, 0);
	for (int i = 0; i < 64; i++)
		assert_int_equal(end.memory[i], 'f');
	memset(end.memory, 'g', 64);
	assert_int_equal(end_post(&end, &send), 0); /* before there is a receive */
	assert_true(end_is_quiet(&end, 20));
	tell(&other, RECEIVE, 0);
	end_wait_opcode(&end, IBV_WC_SEND);
	told = tell(&other, SHOW, 0);
	assert_int_equal(told.bytes[63], 'g');
	leave(&other, &end);
}

static void test_errors_come_back(void **state)
{
	struct end end;
	struct other other = start_other(&end);
	struct op write = op_to(&other, IBV_WR_RDMA_WRITE, 64);

	(void)state;
	write.rkey ^= 0x5500;
	assert_int_equal(end_post(&end, &write), 0);
	write.rkey ^= 0x5500;
	assert_int_equal(end_post(&end, &write), 0);
	end_wait(&end, IBV_WC_REM_ACCESS_ERR);
	end_wait(&end, IBV_WC_WR_FLUSH_ERR);
	leave(&other, &end);
}

static void test_the_other_one_dies(void **state)
{
	struct end end;
	struct other other = start_other(&end);
	struct op write = op_to(&other, IBV_WR_RDMA_WRITE, BIG);
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	double until = seconds() + PATIENCE;
	int done = 0;

	(void)state;
	assert_int_equal(end_post(&end, &write), 0);
	end_wait_opcode(&end, IBV_WC_RDMA_WRITE);
	for (int i = 0; i < POSTS; i++)
		assert_int_equal(end_post(&end, &write), 0);
	kill(other.pid, SIGKILL);
	assert_int_equal(waitpid(other.pid, NULL, 0), other.pid);
	while (!wc.status) {
		assert_true(seconds() < until);
		if (!ibv_poll_cq(end.cq, 1, &wc))
			continue;
		if (!wc.status && ++done == POSTS)
			assert_int_equal(end_post(&end, &write), 0);
	}
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	for (done++; done < POSTS; done++)
		end_wait(&end, IBV_WC_WR_FLUSH_ERR);
	close(other.fd);
	end_close(&end);
	expect_nothing_open();
}

int check_processes(void)
{
	const struct CMUnitTest processes[] = {
		cmocka_unit_test(test_writes_land_by_themselves),
		cmocka_unit_test(test_the_end_may_land_first),
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_errors_come_back),
		cmocka_unit_test(test_the_other_one_dies),
	};

	return cmocka_run_group_tests(processes, NULL, NULL);
}
