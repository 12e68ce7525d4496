/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm whose sender is the input: a script of receives to post, bytes to write on its rails
 * (right messages, plausible frames, garbage), tests, deregistrations and closed connections. Every
 * buffer is freed as soon as NCCL could free it, so that a late or long write is a sanitizer's error.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "unit/local_net.h"

#define RAILS_MAX  3
#define STEPS_MAX  400
#define PAYLOAD    32768
#define BLANK_BYTE 0xee

static const uint16_t sizes[] = { 0, 1, 31, 100, 512, 2048, 4097, 20000 };

struct posted {
	struct anynet_request *req; /* NULL = free */
	int n;
	uint8_t *data[ANYNET_RECVS_MAX];
	size_t bytes[ANYNET_RECVS_MAX];
	struct anynet_mr *mrs[ANYNET_RECVS_MAX];
};

struct run {
	struct input *in;
	struct anynet_comm *comm;
	int peers[RAILS_MAX]; /* -1 = closed */
	unsigned rails;
	uint32_t next_seq; /* of the next right message */
	struct posted posted[ANYNET_REQUESTS];
};

static void blank(struct posted *posted)
{
	for (int i = 0; i < posted->n; i++)
		free(posted->data[i]);
	memset(posted, 0, sizeof(*posted));
}

static void post(struct run *run)
{
	uint8_t shape = input_u8(run->in);
	int tags[ANYNET_RECVS_MAX];
	struct posted *posted = run->posted;

	while (posted < run->posted + ANYNET_REQUESTS && posted->req)
		posted++;
	if (posted == run->posted + ANYNET_REQUESTS)
		return;
	posted->n = shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1;
	for (int i = 0; i < posted->n; i++) {
		uint8_t choice = input_u8(run->in);

		posted->bytes[i] = sizes[choice % ARRAY_SIZE(sizes)];
		tags[i] = choice >> 3 & 3;
		if (choice & 0x20 && !posted->bytes[i])
			continue; /* NULL: nothing is going to be written */
		posted->data[i] = malloc(posted->bytes[i] + 1);
		must(posted->data[i]);
		posted->data[i] = realloc(posted->data[i], posted->bytes[i] ? posted->bytes[i] : 1);
		memset(posted->data[i], BLANK_BYTE, posted->bytes[i]);
		if (choice & 0x40)
			must(!anynet_reg_mr(run->comm, posted->data[i], posted->bytes[i],
					    ANYNET_PTR_HOST, &posted->mrs[i]));
	}
	if (anynet_irecv(run->comm, posted->n, (void *const *)posted->data, posted->bytes, tags,
			 posted->mrs, NULL, &posted->req)) {
		must(comm_error(run->comm));
		must(!posted->req);
	}
	if (!posted->req) {
		/* Buffers of a receive that was refused stay in flight only if the comm failed. */
		for (int i = 0; i < posted->n; i++)
			anynet_dereg_mr(run->comm, posted->mrs[i]);
		blank(posted);
	}
}

static void report(struct run *run, struct posted *posted, const int *got)
{
	int error = comm_error(run->comm);

	for (int i = 0; i < posted->n; i++) {
		must(got[i] >= 0 && (size_t)got[i] <= posted->bytes[i]);
		for (size_t k = (size_t)got[i]; k < posted->bytes[i]; k++)
			must(posted->data[i][k] == BLANK_BYTE);
		anynet_dereg_mr(run->comm, posted->mrs[i]);
	}
	must(comm_error(run->comm) == error); /* nothing was in flight any more */
	blank(posted);
}

static void test(struct run *run, struct posted *posted)
{
	int done, got[ANYNET_RECVS_MAX], ret;

	if (!posted->req)
		return;
	ret = anynet_test(posted->req, &done, got);
	must(ret == comm_error(run->comm));
	must(!done || !ret);
	if (done)
		report(run, posted, got);
}

static void test_all(struct run *run)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(run, &run->posted[i]);
}

/* NCCL takes a buffer back although its receive is not done. */
static void dereg(struct run *run)
{
	struct posted *posted = &run->posted[input_u8(run->in) % ANYNET_REQUESTS];

	for (int i = 0; posted->req && i < posted->n; i++) {
		if (!posted->mrs[i])
			continue;
		anynet_dereg_mr(run->comm, posted->mrs[i]);
		posted->mrs[i] = NULL;
		if (comm_error(run->comm)) {
			free(posted->data[i]);
			posted->data[i] = NULL;
		}
	}
}

static void put(struct run *run, unsigned rail, const void *data, size_t bytes)
{
	if (run->peers[rail] < 0 || !bytes)
		return;
	must(send(run->peers[rail], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	     errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
}

static void put_frame(struct run *run, unsigned rail, const struct anynet_wire_frame *header,
		      size_t payload)
{
	static uint8_t bytes[PAYLOAD];

	put(run, rail, header, sizeof(*header));
	put(run, rail, bytes, anynet_min(payload, sizeof(bytes)));
}

/* A whole message, in two chunks on two rails if there are. */
static void message(struct run *run, unsigned rail)
{
	uint8_t choice = input_u8(run->in);
	uint32_t size = sizes[choice % ARRAY_SIZE(sizes)], first = choice & 0x40 ? size / 2 : size;
	struct anynet_wire_frame header = {
		.type = ANYNET_FRAME_DATA,
		.flags = (choice & 0x20 ? ANYNET_FLAG_MULTI : 0) | ANYNET_FLAG_TAIL,
		.tag = choice >> 3 & 3,
		.slot = (uint16_t)(run->next_seq % ANYNET_WIRE_SLOTS),
		.seq = run->next_seq,
		.length = first,
		.size = size,
	};

	run->next_seq++;
	if (choice & 0x80)
		header.flags |= ANYNET_FLAG_ACK;
	put_frame(run, rail, &header, first + 1);
	if (first == size)
		return;
	header.offset = first;
	header.length = size - first;
	put_frame(run, (rail + 1) % run->rails, &header, header.length + 1);
}

static void plausible_frame(struct run *run, unsigned rail)
{
	uint8_t choice = input_u8(run->in), more = input_u8(run->in);
	struct anynet_wire_frame header = {
		.type = more & 0x80 ? more & 7 : ANYNET_FRAME_DATA,
		.flags = more >> 3 & 0x0b,
		.tag = choice >> 3 & 3,
		.seq = run->next_seq + (uint32_t)(int8_t)input_u8(run->in),
		.size = sizes[choice % ARRAY_SIZE(sizes)],
	};

	header.slot = more & 0x40 ? input_u16(run->in) : header.seq % ANYNET_WIRE_SLOTS;
	header.length = (uint32_t)header.size;
	if (choice & 0x20)
		header.length = input_u16(run->in);
	if (choice & 0x40)
		header.offset = input_u16(run->in);
	if (choice & 0x80)
		run->next_seq = header.seq + 1;
	put_frame(run, rail, &header,
		  more & 0x07 ? header.length + (header.flags & ANYNET_FLAG_TAIL ? 1 : 0)
			      : input_u16(run->in));
}

static void garbage(struct run *run, unsigned rail)
{
	uint8_t bytes[256];
	uint8_t count = input_u8(run->in);

	put(run, rail, bytes, input_take(run->in, bytes, count));
}

static void drain(struct run *run, unsigned rail)
{
	uint8_t bytes[4096];

	while (run->peers[rail] >= 0 &&
	       recv(run->peers[rail], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

static void hang_up(struct run *run, unsigned rail, bool half)
{
	if (run->peers[rail] < 0)
		return;
	if (half) {
		shutdown(run->peers[rail], SHUT_WR);
	} else {
		close(run->peers[rail]);
		run->peers[rail] = -1;
	}
}

static void step(struct run *run)
{
	uint8_t op = input_u8(run->in);
	unsigned rail = (op >> 4) % run->rails;

	switch (op & 0x0f) {
	case 0:
	case 1:
		post(run);
		break;
	case 2:
	case 3:
		message(run, rail);
		break;
	case 4:
	case 5:
		plausible_frame(run, rail);
		break;
	case 6:
		garbage(run, rail);
		break;
	case 7:
		test(run, &run->posted[input_u8(run->in) % ANYNET_REQUESTS]);
		break;
	case 8:
	case 9:
	case 10:
		test_all(run);
		break;
	case 11:
		dereg(run);
		break;
	case 12:
		hang_up(run, rail, op & 0x80);
		break;
	case 13:
		drain(run, rail);
		break;
	case 14:
		run->next_seq += (uint32_t)(int8_t)input_u8(run->in);
		break;
	default:
		must(anynet_iflush(run->comm, 0, NULL, NULL, NULL,
				   &(struct anynet_request *){ NULL }) == comm_error(run->comm));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	struct run run = { .in = &in, .rails = 1 + input_u8(&in) % RAILS_MAX };

	fuzz_net_start();
	run.comm = recv_comm_create(&local_dev, run.rails, LOCAL_RING_BYTES);
	must(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		run.peers[i] = local_rail(run.comm, i);
	must(!comm_open(run.comm));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&run);
	test_all(&run);
	for (unsigned i = 0; i < run.rails; i++)
		hang_up(&run, i, false);
	test_all(&run);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; k < run.posted[i].n; k++)
			anynet_dereg_mr(run.comm, run.posted[i].mrs[k]);
	recv_comm_destroy(run.comm);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		blank(&run.posted[i]);
	return 0;
}
