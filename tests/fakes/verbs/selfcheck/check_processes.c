/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes: writes arrive without activity of the other one, and it may die. The other one has the second device
 * and only executes commands from a socket. */
#include "rig.h"

#include <stdio.h>
#include <support/peer.h>

#define BIG   (1u << 20)
#define POSTS 8

enum order_kind {
	SHOW,    /* the first bytes of your memory */
	FILL,    /* them */
	RECEIVE, /* post one */
	WRITE,   /* to me */
	LEAVE,
};

struct letter {
	enum order_kind kind;
	char bytes[64];
};

static struct peer other;
static struct address_card other_card;

static void obey_one(const struct address_card *card, struct letter *told)
{
	struct op write = {
		.opcode = IBV_WR_RDMA_WRITE, .bytes = 64, .rkey = card->rkey, .remote = card->addr
	};

	if (told->kind == SHOW)
		memcpy(told->bytes, rig.b.memory, sizeof(told->bytes));
	else if (told->kind == FILL)
		memcpy(rig.b.memory, told->bytes, sizeof(told->bytes));
	else if (told->kind == RECEIVE)
		check_ok(end_recv(&rig.b, 0, 4096));
	else if (told->kind == WRITE)
		end_do(&rig.b, &write);
}

static void meet(int fd, struct end *end, const char *device, struct address_card *card)
{
	struct address_card ours;

	end_open(end, device);
	end_make_qp(end, &usual);
	ours = end_card(end);
	peer_send(fd, &ours, sizeof(ours));
	peer_recv(fd, card, sizeof(*card));
	end_connect(end, *card, &usual);
}

static void be_the_other(int fd, void *unused)
{
	struct letter told = { .kind = SHOW };
	struct address_card card;

	(void)unused;
	meet(fd, &rig.b, rig.devices[1], &card);
	do {
		peer_send(fd, &told, sizeof(told));
		peer_recv(fd, &told, sizeof(told));
		obey_one(&card, &told);
	} while (told.kind != LEAVE);
	end_close(&rig.b);
	expect_nothing_open();
}

static void start_other(void)
{
	struct letter told;

	peer_start(&other, be_the_other, NULL);
	meet(other.fd, &rig.a, rig.devices[0], &other_card);
	peer_recv(other.fd, &told, sizeof(told));
}

static struct letter tell(enum order_kind kind, char byte)
{
	struct letter told = { .kind = kind };

	memset(told.bytes, byte, sizeof(told.bytes));
	peer_send(other.fd, &told, sizeof(told));
	peer_recv(other.fd, &told, sizeof(told));
	return told;
}

static void leave(void)
{
	struct letter told = { .kind = LEAVE };

	peer_send(other.fd, &told, sizeof(told));
	peer_wait_ok(&other);
	end_close(&rig.a);
}

static struct op op_to(enum ibv_wr_opcode opcode, uint32_t bytes)
{
	return (struct op){
		.opcode = opcode, .bytes = bytes, .rkey = other_card.rkey, .remote = other_card.addr
	};
}

static void writes_land_by_themselves(void)
{
	struct op write;
	struct letter told;

	start_other();
	write = op_to(IBV_WR_RDMA_WRITE, BIG);
	fill(rig.a.memory, BIG, 1);
	end_posts(&rig.a, &write, POSTS);
	end_waits(&rig.a, IBV_WC_RDMA_WRITE, POSTS);
	told = tell(SHOW, 0);
	check(!memcmp(told.bytes, rig.a.memory, sizeof(told.bytes)));
	/* all of it, by way of a READ */
	write.opcode = IBV_WR_RDMA_READ;
	write.offset = BIG;
	end_do(&rig.a, &write);
	check(!memcmp(rig.a.memory, rig.a.memory + BIG, BIG));
	leave();
}

static void the_end_may_land_first(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a torn WRITE");
	struct letter told = { .bytes = "" };
	struct op write;

	if (!rig.control.script) {
		puts("SKIP a device that takes no orders writes in which order it likes");
		exit(TEST_SKIPPED);
	}
	start_other();
	write = op_to(IBV_WR_RDMA_WRITE, sizeof(told.bytes));
	order("fault tear write count=1000000");
	memset(rig.a.memory, 1, sizeof(told.bytes));
	while (told.bytes[0] || !told.bytes[63]) { /* again: it may not have been seen in time */
		deadline_turn(&deadline);
		tell(FILL, 0);
		check_ok(end_post(&rig.a, &write));
		told = tell(SHOW, 0);
		end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
	}
	told = tell(SHOW, 0);
	check(!memcmp(told.bytes, rig.a.memory, sizeof(told.bytes)));
	order("no-faults");
	leave();
}

static void both_ways(void)
{
	struct op send;
	struct letter told;

	start_other();
	send = op_to(IBV_WR_SEND, 64);
	tell(FILL, 'f');
	tell(WRITE, 0);
	for (int i = 0; i < 64; i++)
		check_int(rig.a.memory[i], 'f');
	memset(rig.a.memory, 'g', 64);
	check_ok(end_post(&rig.a, &send)); /* before there is a receive */
	check(end_is_quiet(&rig.a, 20));
	tell(RECEIVE, 0);
	end_wait_opcode(&rig.a, IBV_WC_SEND);
	told = tell(SHOW, 0);
	check_int(told.bytes[63], 'g');
	leave();
}

static void errors_come_back(void)
{
	struct op write;

	start_other();
	write = op_to(IBV_WR_RDMA_WRITE, 64);
	write.rkey ^= 0x5500;
	check_ok(end_post(&rig.a, &write));
	write.rkey ^= 0x5500;
	end_fails(&rig.a, &write, IBV_WC_REM_ACCESS_ERR);
	end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	leave();
}

static void the_other_one_dies(void)
{
	struct op write;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the WRITEs to fail");
	int done = 0;

	start_other();
	write = op_to(IBV_WR_RDMA_WRITE, BIG);
	end_do(&rig.a, &write);
	end_posts(&rig.a, &write, POSTS);
	peer_kill(&other);
	while (!wc.status) {
		deadline_turn(&deadline);
		if (!ibv_poll_cq(rig.a.cq, 1, &wc))
			continue;
		if (!wc.status && ++done == POSTS)
			check_ok(end_post(&rig.a, &write));
	}
	check_int(wc.status, IBV_WC_RETRY_EXC_ERR);
	for (done++; done < POSTS; done++)
		end_wait(&rig.a, IBV_WC_WR_FLUSH_ERR);
	end_close(&rig.a);
}

const struct selfcheck processes_checks[] = {
	{ CHECK(writes_land_by_themselves), .setting = CLOSED },
	{ CHECK(the_end_may_land_first), .setting = CLOSED },
	{ CHECK(both_ways), .setting = CLOSED },
	{ CHECK(errors_come_back), .setting = CLOSED },
	{ CHECK(the_other_one_dies), .setting = CLOSED },
	{ 0 },
};
