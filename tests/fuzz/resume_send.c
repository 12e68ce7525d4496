/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A send comm whose receiver is the input. As long as that names its true positions and says nothing
 * wild, nothing may fail and in the end everything must have arrived once; a position that is a lie is
 * refused with EPROTO or gone on from. In any case what comes on a rail goes on where the receiver said.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resume.h"
#include "transports/common/checksum.h"

#define MESSAGES_MAX 96
#define FRAMES_MAX   2048
#define HEADER_BYTES sizeof(struct anynet_wire_frame)
#define STAGE_BYTES  65536
#define TOLD_NOTHING 0xff

struct known {
	struct anynet_wire_frame header; /* offset and length as they are to be now */
	bool seen;
};

struct peer_rail {
	int fd; /* -1 = none */
	uint32_t epoch;
	uint8_t stage[STAGE_BYTES];
	size_t head, tail;
	struct known known[FRAMES_MAX];
	uint32_t frames; /* consumed */
	uint32_t part;   /* as tcp_rail.rx_part */
	bool open;       /* frame number `frames` is begun … */
	struct anynet_wire_frame header;
	uint32_t got; /* … and that much of its payload has come */
	uint32_t crc, skip;
	bool bye;
};

enum seen {
	SEEN_NOT,
	SEEN,         /* it has come … */
	SEEN_FOR_GOOD /* … and will not be asked for again */
};

/* One send, from isend to its end. */
struct message {
	struct anynet_request *req; /* NULL = reported done, or lost with the comm */
	uint8_t *data;
	uint32_t bytes, tag;
	struct anynet_mr *mr;
	uint8_t *seen;    /* for each byte: enum seen */
	uint32_t missing; /* bytes that do not count yet */
	uint16_t slot;
	uint8_t told_on;
	bool begun, whole, asked, granted, acked;
};

struct run {
	struct input *in;
	struct anynet_comm *comm;
	uint8_t order;
	bool wild, lied;
	unsigned rails;
	uint32_t count;
	struct message messages[MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* the message that was last seen there */
	struct peer_rail rail[RAILS_MAX];
};

static struct run run;

static bool strict(void)
{
	return !run.wild && !run.lied;
}

static void check_error(void)
{
	int error = comm_error(run.comm);

	must(!error || run.wild || (run.lied && error == -EPROTO));
}

/* --- what NCCL does --- */

static void post(void)
{
	struct message *msg = &run.messages[run.count];
	uint32_t bytes = choose_size(run.in);
	uint8_t choice = input_u8(run.in);
	int ret;

	if (run.count == MESSAGES_MAX || comm_error(run.comm))
		return;
	*msg = (struct message){
		.bytes = bytes, .missing = bytes, .tag = choice % TAGS, .told_on = TOLD_NOTHING
	};
	msg->data = malloc(anynet_max(bytes, 1));
	msg->seen = calloc(anynet_max(bytes, 1), 1);
	must(msg->data && msg->seen);
	memcpy(msg->data, pattern(run.count, 0), bytes);
	must(!anynet_reg_mr(run.comm, msg->data, bytes, ANYNET_PTR_HOST, &msg->mr));
	ret = anynet_isend(run.comm, msg->data, bytes, (int)msg->tag, msg->mr, NULL, &msg->req);
	must(ret == comm_error(run.comm));
	check_error();
	if (msg->req) {
		run.count++;
		return;
	}
	/* Nobody tells what became of it if the comm failed meanwhile. */
	must(ret);
	anynet_dereg_mr(run.comm, msg->mr);
	free(msg->data);
	free(msg->seen);
}

static void test(struct message *msg)
{
	int done, got = -1, ret;

	if (!msg->req)
		return;
	ret = anynet_test(msg->req, &done, &got);
	must(ret == comm_error(run.comm));
	check_error();
	if (!done)
		return;
	must(!ret && (uint32_t)got == msg->bytes);
	anynet_dereg_mr(run.comm, msg->mr);
	free(msg->data);
	msg->mr = NULL;
	msg->data = NULL;
	msg->req = NULL;
}

static void test_all(void)
{
	for (unsigned i = 0; i < run.rails; i++)
		if (run.comm->rails[i] && run.comm->rails[i]->fd >= 0)
			run.comm->rails[i]->writable = true; /* the budget is no event */
	for (uint32_t i = 0; i < run.count; i++)
		test(&run.messages[i]);
}

static void abort_send(void)
{
	struct message *msg = &run.messages[input_u8(run.in) % MESSAGES_MAX];

	if (!msg->req || msg >= run.messages + run.count)
		return;
	run.wild = true;
	anynet_dereg_mr(run.comm, msg->mr);
	msg->mr = NULL;
	if (!comm_error(run.comm))
		return; /* it was copied */
	free(msg->data);
	msg->data = NULL;
}

/* --- the stream that comes in --- */

static struct message *message_of(const struct anynet_wire_frame *header)
{
	struct message *msg = &run.messages[header->seq];

	/* The count is raised after isend, which sends already. */
	must(header->seq <= run.count && header->seq < MESSAGES_MAX);
	must(header->slot < ANYNET_WIRE_SLOTS);
	must(header->size == msg->bytes && header->tag == msg->tag);
	must(header->offset + header->length <= header->size);
	must(header->offset % ANYNET_PART_ALIGN == 0);
	return msg;
}

static void begin_message(const struct anynet_wire_frame *header)
{
	struct message *msg = message_of(header);
	int before = run.slots[header->slot];

	if (!msg->begun) {
		must(!strict() || before < 0 || run.messages[before].acked);
		if (before >= 0)
			run.messages[before].told_on = TOLD_NOTHING;
		run.slots[header->slot] = (int)header->seq;
		msg->slot = header->slot;
	}
	must(msg->slot == header->slot);
	msg->begun = true;
	must(!strict() || !msg->acked);
	if (header->type == ANYNET_FRAME_RTS) {
		must(header->flags & ANYNET_FLAG_MULTI && !header->length);
		msg->asked = true;
	} else {
		must(!strict() || !msg->asked || msg->granted);
		msg->told_on = TOLD_NOTHING; /* of the grant */
	}
}

/* A numbered frame goes on where the receiver said, and is the same as before. */
static void check_known(struct peer_rail *peer, const struct anynet_wire_frame *header)
{
	struct known *known = &peer->known[peer->frames];
	struct anynet_wire_frame *was = &known->header;

	must(peer->frames < FRAMES_MAX);
	if (!known->seen) {
		*known = (struct known){ *header, true };
		return;
	}
	must(header->type == was->type && header->flags == was->flags && header->slot == was->slot);
	must(header->tag == was->tag && header->size == was->size);
	must(header->offset == was->offset && header->length == was->length);
	must(header->seq == was->seq || header->type == ANYNET_FRAME_BYE);
}

static void begin_frame(struct peer_rail *peer)
{
	struct anynet_wire_frame *header = &peer->header;

	memcpy(header, peer->stage + peer->head, HEADER_BYTES);
	peer->head += HEADER_BYTES;
	must(!run.comm->checksum || checksum_check(header, NULL));
	must(!(header->flags & ANYNET_FLAG_CRC) == !run.comm->checksum);
	if (header->type == ANYNET_FRAME_PING) {
		must(!header->length);
		return;
	}
	must(!peer->bye); /* the last of the stream */
	check_known(peer, header);
	peer->part = 0;
	peer->open = true;
	peer->got = 0;
	peer->crc = 0;
	if (header->type == ANYNET_FRAME_DATA || header->type == ANYNET_FRAME_RTS)
		begin_message(header);
	else
		must((header->type == ANYNET_FRAME_READY || header->type == ANYNET_FRAME_BYE) &&
		     !header->length);
}

static void take_payload(struct peer_rail *peer)
{
	const struct anynet_wire_frame *header = &peer->header;
	uint32_t bytes = (uint32_t)anynet_min(peer->tail - peer->head, header->length - peer->got),
		 at = (uint32_t)header->offset + peer->got;
	struct message *msg = &run.messages[header->seq];

	if (!bytes)
		return;
	must(!memcmp(peer->stage + peer->head, pattern(header->seq, at), bytes));
	peer->crc = crc32c(peer->crc, peer->stage + peer->head, bytes);
	for (uint32_t i = at; i < at + bytes; i++) {
		must(!strict() || !msg->seen[i]);
		msg->seen[i] |= SEEN;
	}
	peer->got += bytes;
	peer->head += bytes;
}

/* Bytes [from, end) of a message count. */
static void keep_bytes(struct message *msg, uint64_t from, uint64_t end)
{
	for (uint64_t i = from; i < end; i++) {
		msg->missing -= !(msg->seen[i] & SEEN_FOR_GOOD);
		msg->seen[i] |= SEEN_FOR_GOOD;
	}
	msg->whole = !msg->missing;
}

static bool finish_frame(struct peer_rail *peer)
{
	const struct anynet_wire_frame *header = &peer->header;
	bool data = header->type == ANYNET_FRAME_DATA;
	size_t crc_bytes = data && run.comm->checksum ? ANYNET_CRC_BYTES : 0;

	if (peer->got < header->length || peer->tail - peer->head < crc_bytes)
		return false;
	must(!crc_bytes || !memcmp(peer->stage + peer->head, &peer->crc, crc_bytes));
	peer->head += crc_bytes;
	peer->skip = data && header->flags & ANYNET_FLAG_TAIL ? ANYNET_TAIL_BYTES : 0;
	peer->open = false;
	peer->frames++;
	if (header->type == ANYNET_FRAME_BYE)
		peer->bye = true;
	if (data)
		keep_bytes(&run.messages[header->seq], header->offset,
			   header->offset + header->length);
	return true;
}

static void consume(struct peer_rail *peer)
{
	for (;;) {
		if (peer->open) {
			take_payload(peer);
			if (!finish_frame(peer))
				return;
		} else if (peer->skip && peer->tail > peer->head) {
			must(!peer->stage[peer->head]);
			peer->head++;
			peer->skip = 0;
		} else if (peer->tail - peer->head >= HEADER_BYTES) {
			begin_frame(peer);
		} else {
			return;
		}
	}
}

/* Read at most `limit` bytes. Returns how many. */
static size_t pull(struct peer_rail *peer, size_t limit)
{
	size_t total = 0;

	while (peer->fd >= 0 && total < limit) {
		ssize_t n;

		memmove(peer->stage, peer->stage + peer->head, peer->tail - peer->head);
		peer->tail -= peer->head;
		peer->head = 0;
		n = recv(peer->fd, peer->stage + peer->tail,
			 anynet_min(sizeof(peer->stage) - peer->tail, limit - total), MSG_DONTWAIT);
		if (n <= 0)
			break;
		total += (size_t)n;
		peer->tail += (size_t)n;
		consume(peer);
	}
	return total;
}

/* --- what the receiver says --- */

static void hang_up(struct peer_rail *peer)
{
	peer_close(&peer->fd);
}

/* A control frame, of which `cut` bytes are lost with the connection. */
static void say(struct peer_rail *peer, struct anynet_wire_frame header, const uint8_t *payload,
		size_t cut)
{
	uint8_t frame[HEADER_BYTES + ANYNET_ACK_BYTES];
	size_t bytes = HEADER_BYTES + header.length;

	if (header.length)
		memcpy(frame + HEADER_BYTES, payload, header.length);
	if (run.comm->checksum)
		checksum_header(&header, header.length ? payload : frame);
	memcpy(frame, &header, HEADER_BYTES);
	cut = anynet_min(cut, bytes);
	if (peer->fd < 0)
		return;
	if (peer_send(peer->fd, frame, bytes - cut) != bytes)
		hang_up(peer);
}

static bool may_acknowledge(const struct message *msg)
{
	return msg->whole && !msg->acked;
}

/* Those of every `each`-th message that is there. */
static void acknowledge(unsigned rail, unsigned each, size_t cut)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK, .length = ANYNET_ACK_BYTES };
	uint8_t bitmap[ANYNET_ACK_BYTES] = { 0 };
	unsigned count = 0;

	if (run.rail[rail].fd < 0)
		return;
	for (uint32_t i = 0; i < run.count; i++) {
		struct message *msg = &run.messages[i];

		if (!may_acknowledge(msg) || i % each)
			continue;
		msg->acked = true;
		msg->told_on = (uint8_t)rail;
		bitmap[msg->slot / 8] |= (uint8_t)(1u << msg->slot % 8);
		count++;
	}
	if (count)
		say(&run.rail[rail], header, bitmap, cut);
}

static struct anynet_wire_frame word_about(uint32_t number, uint8_t type)
{
	return (struct anynet_wire_frame){ .type = type,
					   .slot = run.messages[number].slot,
					   .seq = number };
}

static void grant(unsigned rail, size_t cut)
{
	if (run.rail[rail].fd < 0)
		return;
	for (uint32_t i = 0; i < run.count; i++) {
		struct message *msg = &run.messages[i];

		if (!msg->asked || msg->granted)
			continue;
		msg->granted = true;
		msg->told_on = (uint8_t)rail;
		say(&run.rail[rail], word_about(i, ANYNET_FRAME_GRANT), NULL, cut);
		return;
	}
}

/* What was told on a rail, once more. */
static void tell_again(unsigned rail)
{
	for (uint32_t i = 0; i < run.count; i++) {
		struct message *msg = &run.messages[i];

		if (msg->told_on == rail && run.slots[msg->slot] == (int)i)
			say(&run.rail[rail],
			    word_about(i, msg->acked ? ANYNET_FRAME_ACK : ANYNET_FRAME_GRANT), NULL,
			    0);
	}
}

/* --- resuming --- */

/* The connection is over: what of the frame at its head stays in place? */
static void fence(struct peer_rail *peer)
{
	const struct anynet_wire_frame *header = &peer->header;
	struct message *msg = &run.messages[header->seq];
	uint32_t keep;

	hang_up(peer);
	peer->head = peer->tail = 0;
	peer->skip = 0;
	if (!peer->open)
		return;
	peer->open = false;
	keep = header->flags & (ANYNET_FLAG_TAIL | ANYNET_FLAG_CRC)
		       ? 0
		       : peer->got - peer->got % ANYNET_PART_ALIGN;
	if (keep)
		keep_bytes(msg, header->offset, header->offset + keep);
	for (uint64_t i = header->offset + keep; i < header->offset + peer->got; i++)
		msg->seen[i] &= SEEN_FOR_GOOD;
	peer->part = keep ? (uint32_t)header->offset + keep : 0;
}

static void lie(uint32_t *frames, uint32_t *part)
{
	uint8_t choice = input_u8(run.in);

	run.lied = true;
	if (choice & 1)
		*frames += (uint32_t)((int8_t)input_u8(run.in) % 4);
	if (choice & 2)
		*part = input_u8(run.in) * (uint32_t)ANYNET_PART_ALIGN;
	if (choice & 4)
		*part += input_u8(run.in);
	if (choice & 8)
		*frames = input_u16(run.in);
	if (choice & 16)
		*part = ~*part;
}

/* From now on the stream is expected from there. */
static void expect_from(struct peer_rail *peer, uint32_t frames, uint32_t part)
{
	struct anynet_wire_frame *header;

	must(frames < FRAMES_MAX);
	/* What a lie left out was never looked at. */
	for (uint32_t n = frames; n > peer->frames; n--)
		if (n < FRAMES_MAX && n > peer->frames)
			must(run.lied);
	header = &peer->known[frames].header;
	peer->frames = frames;
	peer->part = part;
	peer->bye = false;
	if (!peer->known[frames].seen || part <= header->offset)
		return;
	header->length -= part - (uint32_t)header->offset;
	header->offset = part;
}

static bool can_resume(unsigned rail)
{
	return run.comm->rails[rail] && !comm_error(run.comm) && !run.comm->peer_closed;
}

static void resume(unsigned index, bool true_position)
{
	struct anynet_rail *rail = run.comm->rails[index];
	struct peer_rail *peer = &run.rail[index];
	uint32_t frames, part;
	int fds[2];

	if (!can_resume(index))
		return;
	fence(peer);
	frames = peer->frames;
	part = peer->part;
	if (!true_position)
		lie(&frames, &part);
	if (rail->fd >= 0)
		comm_sever(run.comm, rail, 0);
	peer_pair(fds);
	peer->fd = fds[1];
	comm_rail_back(run.comm, rail, fds[0], ++peer->epoch, rail->home, frames, part);
	check_error();
	if (comm_error(run.comm))
		return;
	expect_from(peer, frames, part);
	tell_again(index);
}

static void resume_somehow(unsigned rail)
{
	uint8_t choice = input_u8(run.in);

	if (choice & 1)
		pull(&run.rail[rail], SIZE_MAX);
	resume(rail, !(run.order & LIES) || choice & 0x06);
}

static void break_rail(unsigned index, uint8_t how)
{
	struct anynet_rail *rail = run.comm->rails[index];

	if (!(how & 3)) {
		hang_up(&run.rail[index]);
	} else if (!rail || rail->fd < 0) {
		return;
	} else if (how & 1) {
		comm_rail_broke(run.comm, rail, how & 4 ? -ETIMEDOUT : -EPIPE);
		check_error();
	} else {
		comm_sever(run.comm, rail, -ENETDOWN);
	}
}

/* --- what is not right --- */

static void go_wild(unsigned rail)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_ACK };
	uint8_t choice = input_u8(run.in), bytes[ANYNET_ACK_BYTES];

	if (!(run.order & WILD))
		return;
	if (choice & 1) {
		abort_send();
		return;
	}
	run.wild = true;
	input_take(run.in, bytes, sizeof(bytes) / 8);
	memset(bytes + sizeof(bytes) / 8, 0, sizeof(bytes) - sizeof(bytes) / 8);
	if (choice & 2) {
		header.length = sizeof(bytes);
	} else {
		header.type = choice & 4 ? 4 + choice / 16 : ANYNET_FRAME_ACK;
		header.slot = bytes[0];
		header.seq = bytes[1];
	}
	say(&run.rail[rail], header, bytes, choice & 8 ? bytes[2] : 0);
}

/* A byte of it is changed on the way: the rail is given up, nothing else. */
static void spoilt_word(struct peer_rail *peer)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_PING };

	if (!run.comm->checksum || peer->fd < 0)
		return;
	checksum_header(&header, NULL);
	((uint8_t *)&header)[input_u8(run.in) % HEADER_BYTES] ^= 1 + input_u8(run.in) % 255;
	if (peer_send(peer->fd, &header, sizeof(header)) != sizeof(header))
		hang_up(peer);
}

/* --- the script --- */

static void test_on_full_sockets(uint8_t op)
{
	if (op & 0x80)
		take_short = 1 + (op >> 4 & 3); /* without the tail, say */
	else
		take_budget = op & 1 ? input_u8(run.in) : input_u16(run.in);
	test_all();
	take_short = 0;
	take_budget = SIZE_MAX;
}

static void step(void)
{
	uint8_t op = input_u8(run.in);
	unsigned rail = (op >> 4) % run.rails;

	switch (op & 0x0f) {
	case 0:
	case 1:
		post();
		break;
	case 2:
		test_all();
		break;
	case 3:
	case 4:
		test_on_full_sockets(op);
		break;
	case 5:
		pull(&run.rail[rail], input_u8(run.in));
		break;
	case 6:
		pull(&run.rail[rail], input_u16(run.in));
		break;
	case 7:
		pull(&run.rail[rail], SIZE_MAX);
		break;
	case 8:
		acknowledge(rail, 1 + (op >> 6), 0);
		break;
	case 9:
		grant(rail, 0);
		break;
	case 10:
		if (op & 0x80)
			grant(rail, 1 + input_u8(run.in) % HEADER_BYTES);
		else
			acknowledge(rail, 1, 1 + input_u8(run.in) % 64);
		break;
	case 11:
	case 12:
		resume_somehow(rail);
		break;
	case 13:
		break_rail(rail, input_u8(run.in));
		break;
	case 14:
		if (op & 0x80)
			spoilt_word(&run.rail[rail]);
		else
			send_ready(run.comm, run.rails);
		break;
	default:
		go_wild(rail);
	}
}

static bool all_home(void)
{
	for (uint32_t i = 0; i < run.count; i++)
		if (run.messages[i].req || !run.messages[i].acked)
			return false;
	return send_confirmed(run.comm);
}

/* Whatever was broken: now it is not, and everything arrives. */
static void bring_home(void)
{
	unsigned rounds = 0;

	for (unsigned i = 0; i < run.rails; i++)
		resume(i, true);
	while (!all_home()) {
		must(++rounds < ROUNDS_MAX);
		test_all();
		must(!comm_turn(run.comm)); /* also when all are tested and not acknowledged */
		for (unsigned i = 0; i < run.rails; i++)
			pull(&run.rail[i], SIZE_MAX);
		for (unsigned i = 0; i < run.rails; i++)
			grant(i, 0);
		acknowledge(rounds % run.rails, 1, 0);
	}
}

/* NCCL closes it; the guardian's part is played here. */
static void close_comm(void)
{
	bool stays = linger_start(run.comm);

	for (int i = 0; i < 8 && stays; i++) {
		for (unsigned k = 0; k < run.rails; k++)
			pull(&run.rail[k], SIZE_MAX);
		stays = !linger_over(run.comm);
	}
	for (unsigned k = 0; strict() && k < run.rails; k++) {
		pull(&run.rail[k], SIZE_MAX);
		must(run.rail[k].bye);
	}
	must(!strict() || !stays);
}

static void start(struct input *in, uint8_t order)
{
	for (unsigned i = 0; i < RAILS_MAX; i++) {
		struct peer_rail *peer = &run.rail[i];

		for (uint32_t k = 0; k < FRAMES_MAX; k++)
			peer->known[k].seen = false;
		peer->fd = -1;
		peer->epoch = peer->frames = peer->part = peer->skip = 0;
		peer->head = peer->tail = 0;
		peer->open = peer->bye = false;
	}
	memset(run.slots, 0xff, sizeof(run.slots));
	run.in = in;
	run.order = order;
	run.wild = run.lied = false;
	run.count = 0;
	run.rails = 1 + (order >> RAILS_AT) % RAILS_MAX;
	run.comm = send_comm_create(&local_dev, run.rails);
	must(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		run.rail[i].fd = local_rail(run.comm, i);
	must(!comm_open(run.comm));
}

void resume_sending(struct input *in, uint8_t order)
{
	start(in, order);
	for (int i = 0; in->left && i < STEPS_MAX; i++)
		step();
	if (strict())
		bring_home();
	test_all();
	/* NCCL has taken everything back; then it closes. */
	for (uint32_t i = 0; i < run.count; i++) {
		anynet_dereg_mr(run.comm, run.messages[i].mr);
		if (!comm_error(run.comm))
			continue;
		free(run.messages[i].data);
		run.messages[i].data = NULL;
	}
	close_comm();
	send_comm_destroy(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		hang_up(&run.rail[i]);
	for (uint32_t i = 0; i < run.count; i++) {
		free(run.messages[i].data);
		free(run.messages[i].seen);
	}
}
