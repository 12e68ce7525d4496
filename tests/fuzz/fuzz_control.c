/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver is the input: a script of sends, acknowledgements and grants (plausible
 * ones and garbage), tests, deregistrations and closed connections. Every buffer is freed as soon as
 * NCCL could free it, so that a late read is a sanitizer's error.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "unit/local_net.h"

#define RAILS_MAX 3
#define STEPS_MAX 600
#define SENT_MAX  ANYNET_SENDS

static const uint32_t sizes[] = { 0, 1, 100, 1000, 1024, 1025, 5000, 70000 };

struct sent {
	struct anynet_request *req; /* NULL = free */
	uint8_t *data;
	size_t bytes;
	struct anynet_mr *mr;
};

struct run {
	struct input *in;
	struct anynet_comm *comm;
	int peers[RAILS_MAX]; /* -1 = closed */
	unsigned rails;
	struct sent sent[SENT_MAX];
};

static void post(struct run *run, uint8_t tag)
{
	uint8_t choice = input_u8(run->in);
	struct sent *sent = run->sent;

	while (sent < run->sent + SENT_MAX && sent->req)
		sent++;
	if (sent == run->sent + SENT_MAX)
		return;
	sent->bytes = sizes[choice % ARRAY_SIZE(sizes)];
	if (sent->bytes || choice & 0x20) {
		sent->data = malloc(anynet_max(sent->bytes, 1));
		must(sent->data);
		memset(sent->data, choice, sent->bytes);
		must(!anynet_reg_mr(run->comm, sent->data, sent->bytes, ANYNET_PTR_HOST,
				    &sent->mr));
	}
	if (anynet_isend(run->comm, sent->data, sent->bytes, tag, sent->mr, NULL, &sent->req))
		must(comm_error(run->comm) && !sent->req);
	if (!sent->req) {
		anynet_dereg_mr(run->comm, sent->mr);
		free(sent->data);
		memset(sent, 0, sizeof(*sent));
	}
}

static void test(struct run *run, struct sent *sent)
{
	int done, got = -1, ret, error;

	if (!sent->req)
		return;
	ret = anynet_test(sent->req, &done, &got);
	error = comm_error(run->comm);
	must(ret == error);
	if (!done)
		return;
	must(!ret && (size_t)got == sent->bytes);
	anynet_dereg_mr(run->comm, sent->mr);
	must(comm_error(run->comm) == error); /* nothing was in flight any more */
	free(sent->data);
	memset(sent, 0, sizeof(*sent));
}

static void test_all(struct run *run)
{
	for (int i = 0; i < SENT_MAX; i++)
		test(run, &run->sent[i]);
}

/* NCCL takes a buffer back although its send is not done. */
static void dereg(struct run *run)
{
	struct sent *sent = &run->sent[input_u8(run->in) % SENT_MAX];

	if (!sent->mr)
		return;
	anynet_dereg_mr(run->comm, sent->mr);
	sent->mr = NULL;
	if (comm_error(run->comm)) {
		free(sent->data);
		sent->data = NULL;
	}
}

static void put(struct run *run, unsigned rail, const void *data, size_t bytes)
{
	if (run->peers[rail] < 0 || !bytes)
		return;
	must(send(run->peers[rail], data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	     errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
}

static void control(struct run *run, unsigned rail)
{
	uint8_t choice = input_u8(run->in), bitmap[ANYNET_ACK_BYTES] = { 0 };
	struct anynet_wire_frame header = {
		.type = choice & 1 ? ANYNET_FRAME_GRANT : ANYNET_FRAME_ACK,
		.length = choice & 1 ? 0 : sizeof(bitmap),
	};

	if (choice & 1)
		header.slot = choice & 2 ? input_u16(run->in) : input_u8(run->in) & 0x0f;
	if (choice & 0x80)
		header.type = input_u8(run->in);
	if (choice & 0x40)
		header.length = input_u8(run->in) % (2 * sizeof(bitmap));
	put(run, rail, &header, sizeof(header));
	if (choice & 4)
		memset(bitmap, 0xff, input_u8(run->in) % sizeof(bitmap));
	else
		input_take(run->in, bitmap, choice >> 3 & 3);
	put(run, rail, bitmap, anynet_min(header.length, sizeof(bitmap)));
}

static void garbage(struct run *run, unsigned rail)
{
	uint8_t bytes[256];
	uint8_t count = input_u8(run->in);

	put(run, rail, bytes, input_take(run->in, bytes, count));
}

static void drain(struct run *run, unsigned rail)
{
	static uint8_t bytes[65536];
	size_t count = 1 + (size_t)input_u8(run->in) * 257;

	if (run->peers[rail] >= 0)
		recv(run->peers[rail], bytes, count, MSG_DONTWAIT);
}

static void hang_up(struct run *run, unsigned rail, bool half)
{
	if (run->peers[rail] < 0)
		return;
	if (half) {
		shutdown(run->peers[rail], SHUT_RDWR);
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
	case 2:
		post(run, 0);
		break;
	case 3:
		post(run, op >> 4 & 3);
		break;
	case 4:
	case 5:
	case 6:
		control(run, rail);
		break;
	case 7:
		garbage(run, rail);
		break;
	case 8:
		test(run, &run->sent[input_u8(run->in) % SENT_MAX]);
		break;
	case 9:
	case 10:
		test_all(run);
		break;
	case 11:
	case 12:
		drain(run, rail);
		break;
	case 13:
		dereg(run);
		break;
	case 14:
		hang_up(run, rail, op & 0x80);
		break;
	default:
		send_ready(run->comm, run->rails);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct input in = { data, bytes };
	static struct run run;

	fuzz_net_start();
	memset(&run, 0, sizeof(run));
	run.in = &in;
	run.rails = 1 + input_u8(&in) % RAILS_MAX;
	run.comm = send_comm_create(&local_dev, run.rails);
	must(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		run.peers[i] = local_rail(run.comm, i);
	must(!comm_open(run.comm));
	for (int i = 0; in.left && i < STEPS_MAX; i++)
		step(&run);
	test_all(&run);
	/* NCCL has taken everything back; then it closes. */
	for (int i = 0; i < SENT_MAX; i++) {
		anynet_dereg_mr(run.comm, run.sent[i].mr);
		if (comm_error(run.comm))
			free(run.sent[i].data);
		run.sent[i].data = comm_error(run.comm) ? NULL : run.sent[i].data;
	}
	anynet_close(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		hang_up(&run, i, false);
	anynet_net_trim();
	for (int i = 0; i < SENT_MAX; i++)
		free(run.sent[i].data);
	return 0;
}
