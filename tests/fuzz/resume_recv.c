/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm whose sender is the input. As long as it says nothing wild it is a right sender, who
 * keeps what the protocol asks for and checks what the comm tells: positions, acknowledgements and
 * grants; in the end every message must arrive, whatever broke before.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "resume.h"
#include "transports/common/checksum.h"
#include "transports/common/heal.h"
#include "transports/common/recv_internal.h"

#define SCRIPT_MAX   64 /* messages of the script; some more fill what stays posted */
#define MESSAGES_MAX (SCRIPT_MAX + ANYNET_SENDS)
#define FRAMES_MAX   (6 * SCRIPT_MAX + 2 * ANYNET_SENDS)
#define HEADER_BYTES sizeof(struct anynet_wire_frame)

/* A frame of a rail's stream. */
struct frame {
	struct anynet_wire_frame header; /* as first sent, without checksum */
	uint32_t from, end;              /* what of the message is still to be sent with it */
	uint32_t reached;                /* message offset up to which it has ever been written */
	bool whole;                      /* all that the comm needs of it has been written */
};

struct message {
	uint32_t tag, size, slot;
	uint8_t layout, rail;
	uint8_t frames, flags;
	bool asked, granted, acked, done;
};

struct peer_rail {
	int fd;     /* -1 = none */
	int coming; /* has said RESUME, the answer is not read yet; -1 = none */
	uint32_t epoch;
	struct frame frames[FRAMES_MAX];
	uint32_t count, next;
	size_t gone;    /* bytes of frame `next` written */
	size_t written; /* on this connection */
	bool spoiled;   /* a byte was changed on this connection */
	bool flip;      /* the next one written is */
	uint64_t told;  /* position as the comm told it last */
	uint32_t told_part;
	uint8_t in[4096];
	size_t in_bytes;
};

struct posted {
	struct anynet_request *req; /* NULL = free */
	int n;
	uint8_t *data[ANYNET_RECVS_MAX];
	size_t bytes[ANYNET_RECVS_MAX];
	int tags[ANYNET_RECVS_MAX];
	uint32_t index[ANYNET_RECVS_MAX]; /* among the receives of its tag */
	struct anynet_mr *mrs[ANYNET_RECVS_MAX];
};

/* The messages and receives of a tag, in order. */
struct tag_state {
	uint32_t sent, posted;
	uint32_t messages[MESSAGES_MAX];
	uint32_t room[4 * MESSAGES_MAX];
};

struct run {
	struct input *in;
	struct anynet_comm *comm;
	uint8_t order;
	bool wild;
	bool multi, tag_known;
	unsigned rails;
	uint32_t tag;
	uint32_t count;
	struct message messages[MESSAGES_MAX];
	int slots[ANYNET_WIRE_SLOTS]; /* message number, -1 = free */
	struct tag_state tags[TAGS];
	struct peer_rail rail[RAILS_MAX];
	struct posted posted[ANYNET_REQUESTS];
};

static struct run run;

static bool strict(void)
{
	return !run.wild;
}

/* --- what the sender has to send --- */

static void queue_frame(unsigned rail, const struct anynet_wire_frame *header)
{
	struct peer_rail *peer = &run.rail[rail];

	must(peer->count < FRAMES_MAX);
	peer->frames[peer->count++] = (struct frame){
		.header = *header,
		.from = (uint32_t)header->offset,
		.end = (uint32_t)header->offset + header->length,
		.reached = (uint32_t)header->offset,
	};
}

static struct anynet_wire_frame message_frame(const struct message *msg, uint8_t type)
{
	return (struct anynet_wire_frame){
		.type = type,
		.flags = msg->flags,
		.slot = (uint16_t)msg->slot,
		.tag = msg->tag,
		.seq = (uint32_t)(msg - run.messages),
		.size = msg->size,
	};
}

static void queue_data(struct message *msg)
{
	uint32_t chunks = msg->flags & ANYNET_FLAG_TAIL ? 1 : 1 + (msg->layout & 3), each, at = 0;
	struct anynet_wire_frame header = message_frame(msg, ANYNET_FRAME_DATA);
	unsigned rail = msg->rail;

	each = (msg->size / chunks + ANYNET_PART_ALIGN - 1) & ~(ANYNET_PART_ALIGN - 1u);
	do {
		header.offset = at;
		header.length = anynet_min(each, msg->size - at);
		queue_frame(rail, &header);
		msg->frames++;
		at += header.length;
		rail = (rail + (msg->layout >> 2 & 1)) % run.rails;
	} while (at < msg->size);
}

static uint32_t free_slot(void)
{
	uint32_t slot = 0;

	while (run.slots[slot] >= 0)
		slot++;
	return slot;
}

static void new_message(unsigned rail, uint32_t tag, uint32_t size, uint8_t layout)
{
	struct message *msg = &run.messages[run.count];
	struct tag_state *line = &run.tags[tag];

	if (line->posted > line->sent)
		size = anynet_min(size, line->room[line->sent]);
	run.multi |= run.tag_known && tag != run.tag;
	run.tag_known = true;
	run.tag = tag;
	*msg = (struct message){ .tag = tag,
				 .size = size,
				 .slot = free_slot(),
				 .layout = layout,
				 .rail = (uint8_t)rail };
	run.slots[msg->slot] = (int)run.count;
	msg->flags = run.multi ? ANYNET_FLAG_MULTI : 0;
	msg->flags |= size <= LOCAL_EAGER_BYTES ? ANYNET_FLAG_TAIL : ANYNET_FLAG_ACK;
	line->messages[line->sent++] = run.count++;
	if (run.multi && !(msg->flags & ANYNET_FLAG_TAIL)) {
		struct anynet_wire_frame header = message_frame(msg, ANYNET_FRAME_RTS);

		msg->asked = true;
		queue_frame(rail, &header);
		return;
	}
	queue_data(msg);
}

static void some_message(unsigned rail)
{
	uint32_t size = choose_size(run.in);
	uint8_t choice = input_u8(run.in);

	if (run.count < SCRIPT_MAX)
		new_message(rail, (choice >> 4) % TAGS, size, choice & 7);
}

/* --- writing it --- */

/* What is left to be sent of a frame, as it looks on the wire. *needed: without the tail. */
static size_t make_image(const struct frame *frame, uint8_t *image, size_t *needed)
{
	struct anynet_wire_frame header = frame->header;
	bool data = header.type == ANYNET_FRAME_DATA;
	size_t bytes = HEADER_BYTES;

	header.offset = frame->from;
	header.length = frame->end - frame->from;
	memcpy(image + bytes, pattern(header.seq, frame->from), header.length);
	bytes += header.length;
	if (run.comm->checksum) {
		uint32_t crc = crc32c(0, image + HEADER_BYTES, header.length);

		checksum_header(&header, NULL);
		memcpy(image + bytes, &crc, sizeof(crc));
		bytes += data ? sizeof(crc) : 0;
	}
	memcpy(image, &header, HEADER_BYTES);
	*needed = bytes;
	if (header.flags & ANYNET_FLAG_TAIL)
		image[bytes++] = 0;
	return bytes;
}

static void note_written(struct peer_rail *peer, struct frame *frame, size_t needed)
{
	size_t payload = peer->gone > HEADER_BYTES ? peer->gone - HEADER_BYTES : 0;

	if (peer->spoiled)
		return;
	payload = anynet_min(payload, frame->end - frame->from);
	frame->reached = anynet_max(frame->reached, frame->from + (uint32_t)payload);
	frame->whole |= peer->gone >= needed;
}

/* Write at most `limit` bytes of the stream. Returns how many. */
static size_t push(struct peer_rail *peer, size_t limit)
{
	static uint8_t image[BYTES_MAX + 64];
	size_t total = 0;

	while (peer->fd >= 0 && peer->next < peer->count && total < limit) {
		struct frame *frame = &peer->frames[peer->next];
		size_t needed, bytes = make_image(frame, image, &needed), n;

		n = anynet_min(bytes - peer->gone, limit - total);
		if (peer->flip && peer->gone + n / 2 < needed) {
			image[peer->gone + n / 2] ^= 0x20;
			n = n / 2 + 1;
		}
		n = peer_send(peer->fd, image + peer->gone, n);
		if (!n)
			return total;
		if (peer->flip)
			peer->spoiled = true;
		peer->flip = false;
		peer->gone += n;
		peer->written += n;
		total += n;
		note_written(peer, frame, needed);
		if (peer->gone < bytes)
			continue;
		peer->next++;
		peer->gone = 0;
	}
	return total;
}

static void ping(struct peer_rail *peer)
{
	struct anynet_wire_frame header = { .type = ANYNET_FRAME_PING };

	if (peer->fd < 0 || peer->gone)
		return;
	if (run.comm->checksum)
		checksum_header(&header, NULL);
	if (peer_send(peer->fd, &header, sizeof(header)) != sizeof(header))
		peer_close(&peer->fd);
}

/* --- what the comm says --- */

static bool all_whole(uint32_t number)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < run.rails; i++)
		for (uint32_t k = 0; k < run.rail[i].count; k++) {
			const struct frame *frame = &run.rail[i].frames[k];

			whole += frame->header.type == ANYNET_FRAME_DATA &&
				 frame->header.seq == number && frame->whole;
		}
	return run.messages[number].frames && whole == run.messages[number].frames;
}

static void acknowledged(unsigned slot)
{
	int number = run.slots[slot];

	must(number >= 0 && all_whole((uint32_t)number));
	run.messages[number].acked = true;
	run.slots[slot] = -1;
}

static void granted(const struct anynet_wire_frame *header)
{
	int number = run.slots[header->slot];
	struct message *msg = &run.messages[header->seq];

	must(header->seq < run.count && msg->slot == header->slot && msg->asked);
	if (number != (int)header->seq || msg->granted)
		return; /* told again */
	msg->granted = true;
	queue_data(msg);
}

static void take_control(const struct anynet_wire_frame *header, const uint8_t *payload)
{
	must(header->slot < ANYNET_WIRE_SLOTS);
	if (header->type == ANYNET_FRAME_ACK && header->length) {
		must(header->length == ANYNET_ACK_BYTES);
		for (unsigned slot = 0; slot < ANYNET_WIRE_SLOTS; slot++)
			if (payload[slot / 8] >> slot % 8 & 1)
				acknowledged(slot);
		return;
	}
	must(!header->length);
	if (header->type == ANYNET_FRAME_ACK) {
		if (run.slots[header->slot] == (int)header->seq)
			acknowledged(header->slot);
	} else if (header->type == ANYNET_FRAME_GRANT) {
		granted(header);
	} else {
		must(header->type == ANYNET_FRAME_PING || header->type == ANYNET_FRAME_BYE ||
		     header->type == ANYNET_FRAME_DOUBT);
	}
}

static void take_controls(struct peer_rail *peer)
{
	size_t at = 0;

	while (strict() && peer->in_bytes - at >= HEADER_BYTES) {
		struct anynet_wire_frame header;

		memcpy(&header, peer->in + at, sizeof(header));
		must(header.length <= ANYNET_ACK_BYTES);
		if (peer->in_bytes - at < HEADER_BYTES + header.length)
			break;
		must(!run.comm->checksum || checksum_check(&header, peer->in + at + HEADER_BYTES));
		take_control(&header, peer->in + at + HEADER_BYTES);
		at += HEADER_BYTES + header.length;
	}
	if (!strict())
		at = peer->in_bytes;
	peer->in_bytes -= at;
	memmove(peer->in, peer->in + at, peer->in_bytes);
}

static void hear(struct peer_rail *peer)
{
	while (peer->fd >= 0) {
		ssize_t n = recv(peer->fd, peer->in + peer->in_bytes,
				 sizeof(peer->in) - peer->in_bytes, MSG_DONTWAIT);

		if (n <= 0)
			return;
		peer->in_bytes += (size_t)n;
		take_controls(peer);
	}
}

/* --- resuming --- */

/* What a frame brought is where the comm says. */
static void check_placed(const struct frame *frame, uint32_t end)
{
	const struct recv_msg *msg = &((struct recv_comm *)run.comm)->msgs[frame->header.slot];
	uint32_t from = (uint32_t)frame->header.offset;
	const uint8_t *base;

	if (frame->header.type != ANYNET_FRAME_DATA || msg->seq != frame->header.seq ||
	    msg->state == RECV_UNSEEN || from == end)
		return;
	base = msg->arrival ? msg->arrival->data : msg->sub->data;
	must(!memcmp(base + from, pattern(msg->seq, from), end - from));
}

static void check_position(struct peer_rail *peer, uint64_t frames, uint32_t part)
{
	must(frames <= peer->count && frames >= peer->told);
	if (peer->written < HEADER_BYTES)
		must(frames == peer->told && part == peer->told_part);
	for (uint64_t n = 0; n < frames; n++) {
		must(peer->frames[n].whole);
		check_placed(&peer->frames[n], peer->frames[n].end);
	}
	if (part) {
		const struct frame *frame = &peer->frames[frames];

		must(frames < peer->count && frame->header.type == ANYNET_FRAME_DATA);
		must(!(frame->header.flags & ANYNET_FLAG_TAIL) && !run.comm->checksum);
		must(part % ANYNET_PART_ALIGN == 0 && part >= frame->from);
		must(part < frame->end && part <= frame->reached);
		check_placed(frame, part);
	}
	/* A message that the comm has given to its receiver is not asked for again. */
	for (uint64_t n = frames; n < peer->count; n++)
		must(peer->frames[n].header.type != ANYNET_FRAME_DATA ||
		     !(run.messages[peer->frames[n].header.seq].done ||
		       run.messages[peer->frames[n].header.seq].acked));
}

static void note_position(struct peer_rail *peer, const struct anynet_wire_hello *welcome)
{
	if (!strict())
		return;
	check_position(peer, welcome->frames, welcome->part);
	peer->told = welcome->frames;
	peer->told_part = welcome->part;
}

static void go_on(struct peer_rail *peer, int fd, const struct anynet_wire_hello *welcome)
{
	note_position(peer, welcome);
	peer_close(&peer->fd);
	peer->fd = fd;
	peer->in_bytes = peer->gone = peer->written = 0;
	peer->spoiled = peer->flip = false;
	peer->next = (uint32_t)anynet_min(welcome->frames, peer->count);
	if (strict() && welcome->part > peer->frames[peer->next].from)
		peer->frames[peer->next].from = welcome->part;
}

/* Hand in a connection that says RESUME. Returns our end. */
static int say_resume(uint16_t rail, uint32_t epoch)
{
	struct anynet_wire_hello hello;
	int fds[2];

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.rail = rail;
	hello.epoch = epoch;
	peer_pair(fds);
	must(!heal_post(run.comm, fds[0], &hello, NULL));
	return fds[1];
}

/* False = it did not fit into the socket. */
static bool read_welcome(int fd, struct anynet_wire_hello *welcome)
{
	if (recv(fd, welcome, sizeof(*welcome), MSG_DONTWAIT) != sizeof(*welcome))
		return false;
	must(!hello_check(welcome, ANYNET_WELCOME));
	return true;
}

static uint32_t expected_status(uint16_t rail, uint32_t epoch)
{
	if (comm_error(run.comm) || run.comm->peer_closed)
		return ANYNET_STATUS_GONE;
	if (rail >= run.rails || !run.comm->rails[rail] ||
	    (int32_t)(epoch - run.rail[rail].epoch) <= 0)
		return ANYNET_STATUS_STALE;
	return ANYNET_STATUS_OK;
}

/* The comm knows a connection that we do not go on with. */
static void give_up(struct peer_rail *peer)
{
	peer_close(&peer->coming);
	peer_close(&peer->fd);
	peer->written = HEADER_BYTES; /* at most */
}

/* Read the answer to the RESUME that was said, and go on over it, or lose it. */
static void take_welcome(struct peer_rail *peer, bool lost)
{
	struct anynet_wire_hello welcome;
	int fd = peer->coming;

	if (fd < 0)
		return;
	if (!read_welcome(fd, &welcome) || welcome.status) {
		must(run.wild || take_budget == 0);
		give_up(peer);
	} else if (lost) {
		note_position(peer, &welcome);
		give_up(peer);
		peer->written = 0;
	} else {
		peer->coming = -1;
		go_on(peer, fd, &welcome);
	}
}

static void resume(uint16_t rail, uint32_t epoch, bool later, bool lost)
{
	struct peer_rail *peer = &run.rail[rail % RAILS_MAX];
	uint32_t status = expected_status(rail, epoch);
	struct anynet_wire_hello welcome;
	int fd = say_resume(rail, epoch);

	if (status != ANYNET_STATUS_OK) {
		must(read_welcome(fd, &welcome) ? welcome.status == status : !take_budget);
		peer_close(&fd);
		return;
	}
	if (peer->coming >= 0)
		give_up(peer);
	peer->epoch = epoch;
	peer->coming = fd;
	if (!later || !take_budget)
		take_welcome(peer, lost);
}

static void resume_somehow(unsigned rail)
{
	uint8_t choice = input_u8(run.in);
	uint32_t epoch = run.rail[rail].epoch;

	if (run.rail[rail].coming >= 0 && choice & 7) {
		take_welcome(&run.rail[rail], choice & 0x10);
		return;
	}
	if (choice & 0x40)
		hear(&run.rail[rail]);
	if (choice & 0x80)
		peer_close(&run.rail[rail].fd);
	switch (choice & 7) {
	case 0:
		epoch += (uint32_t)(int8_t)input_u8(run.in);
		break;
	case 1:
		epoch ^= (uint32_t)input_u16(run.in) << 16;
		break;
	case 2:
		rail = input_u16(run.in) % ANYNET_RAILS_MAX; /* others do not come so far */
		epoch += 1;
		break;
	case 3:
		take_budget = input_u16(run.in) % 1024;
		epoch += 2;
		break;
	default:
		epoch += 1 + (choice >> 3 & 1);
	}
	resume((uint16_t)rail, epoch, choice & 0x20, choice & 0x10 && (choice & 7) < 6);
	take_budget = SIZE_MAX;
}

/* --- what NCCL does --- */

static void blank(struct posted *posted)
{
	for (int i = 0; i < posted->n; i++) {
		anynet_dereg_mr(run.comm, posted->mrs[i]);
		free(posted->data[i]);
	}
	memset(posted, 0, sizeof(*posted));
}

static bool choose_buffer(struct posted *posted, int i, uint8_t choice, uint32_t tag,
			  uint32_t bytes)
{
	struct tag_state *line = &run.tags[tag];

	if (line->posted == ARRAY_SIZE(line->room))
		return false;
	if (line->sent > line->posted)
		bytes = run.messages[line->messages[line->posted]].size + (choice & 0x80 ? 7 : 0);
	posted->bytes[i] = bytes;
	posted->tags[i] = (int)tag;
	posted->index[i] = line->posted;
	line->room[line->posted++] = bytes;
	posted->data[i] = malloc(anynet_max(bytes, 1));
	must(posted->data[i]);
	memset(posted->data[i], BLANK_BYTE, bytes);
	if (choice & 0x40)
		must(!anynet_reg_mr(run.comm, posted->data[i], bytes, ANYNET_PTR_HOST,
				    &posted->mrs[i]));
	return true;
}

static struct posted *free_posted(void)
{
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		if (!run.posted[i].req)
			return &run.posted[i];
	return NULL;
}

static void irecv(struct posted *posted)
{
	int ret = anynet_irecv(run.comm, posted->n, (void *const *)posted->data, posted->bytes,
			       posted->tags, posted->mrs, NULL, &posted->req);

	must(!ret || (!strict() && comm_error(run.comm) && !posted->req));
	if (posted->req)
		return;
	for (int i = posted->n - 1; i >= 0; i--)
		run.tags[posted->tags[i]].posted--;
	blank(posted);
}

static void post(void)
{
	struct posted *posted = free_posted();
	uint8_t shape;

	if (!posted || comm_error(run.comm))
		return;
	shape = input_u8(run.in);
	posted->n = 0;
	for (int i = 0; i < (shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1); i++) {
		uint8_t choice = input_u8(run.in);
		uint32_t bytes = choice & 0x08 ? BYTES_MAX : choose_size(run.in);

		if (!choose_buffer(posted, i, choice, choice % TAGS, bytes))
			break;
		posted->n++;
	}
	if (posted->n)
		irecv(posted);
}

static void check_received(const struct posted *posted, int i, size_t got)
{
	const struct tag_state *line = &run.tags[posted->tags[i]];
	struct message *msg;
	uint32_t number;

	must(got <= posted->bytes[i]);
	for (size_t k = got; k < posted->bytes[i]; k++)
		must(posted->data[i][k] == BLANK_BYTE);
	if (run.wild)
		return;
	must(posted->index[i] < line->sent);
	number = line->messages[posted->index[i]];
	msg = &run.messages[number];
	must(got == msg->size && all_whole(number));
	must(!memcmp(posted->data[i], pattern(number, 0), got));
	msg->done = true;
}

static void test(struct posted *posted)
{
	int done, got[ANYNET_RECVS_MAX], ret;

	if (!posted->req)
		return;
	ret = anynet_test(posted->req, &done, got);
	must(ret == comm_error(run.comm) && (!ret || !strict()));
	must(!done || !ret);
	if (!done)
		return;
	for (int i = 0; i < posted->n; i++)
		check_received(posted, i, (size_t)got[i]);
	blank(posted);
	must(strict() ? !comm_error(run.comm) : true);
}

static void test_all(void)
{
	for (unsigned i = 0; i < run.rails; i++)
		if (run.comm->rails[i] && run.comm->rails[i]->fd >= 0)
			run.comm->rails[i]->writable = true; /* the budget is no event */
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(&run.posted[i]);
}

/* --- what is not right --- */

static void garbage(struct peer_rail *peer)
{
	uint8_t bytes[256], count = input_u8(run.in);
	size_t n = input_take(run.in, bytes, count);

	run.wild = true;
	if (peer->fd >= 0)
		peer_send(peer->fd, bytes, n);
}

/* A frame of the stream with something wrong about it, in its place. */
static void wrong_frame(struct peer_rail *peer)
{
	struct anynet_wire_frame *header;
	uint8_t at = input_u8(run.in) % HEADER_BYTES;

	run.wild = true;
	if (peer->next == peer->count)
		return;
	header = &peer->frames[peer->next].header;
	((uint8_t *)header)[at] ^= input_u8(run.in);
	header->seq %= MESSAGES_MAX;
}

/* NCCL takes its buffers back. */
static void abort_receive(void)
{
	struct posted *posted = &run.posted[input_u8(run.in) % ANYNET_REQUESTS];

	run.wild = true;
	for (int i = 0; posted->req && i < posted->n; i++) {
		anynet_dereg_mr(run.comm, posted->mrs[i]);
		posted->mrs[i] = NULL;
		if (!comm_error(run.comm))
			continue;
		free(posted->data[i]);
		posted->data[i] = NULL;
	}
}

static void go_wild(struct peer_rail *peer, uint8_t which)
{
	if (!(run.order & WILD))
		return;
	if (which == 0)
		abort_receive();
	else if (which == 1)
		garbage(peer);
	else
		wrong_frame(peer);
}

/* --- the script --- */

static void step(void)
{
	uint8_t op = input_u8(run.in);
	unsigned rail = (op >> 4) % run.rails;
	struct peer_rail *peer = &run.rail[rail];

	switch (op & 0x0f) {
	case 0:
	case 1:
		post();
		break;
	case 2:
	case 3:
		some_message(rail);
		break;
	case 4:
		push(peer, input_u8(run.in));
		break;
	case 5:
		push(peer, input_u16(run.in));
		break;
	case 6:
		push(peer, SIZE_MAX);
		break;
	case 7:
		test(&run.posted[input_u8(run.in) % ANYNET_REQUESTS]);
		break;
	case 8:
		test_all();
		break;
	case 9:
		hear(peer);
		break;
	case 10:
	case 11:
		resume_somehow(rail);
		break;
	case 12:
		if (op & 0x80 && peer->fd >= 0)
			shutdown(peer->fd, SHUT_WR);
		else
			peer_close(&peer->fd);
		break;
	case 13:
		take_budget = input_u8(run.in);
		test_all();
		take_budget = SIZE_MAX;
		break;
	case 14:
		if (op & 0x80)
			ping(peer);
		else
			peer->flip = run.comm->checksum && peer->fd >= 0;
		break;
	default:
		go_wild(peer, op >> 4 & 3);
	}
}

/* Post what messages still wait for. */
static void post_missing(void)
{
	for (uint32_t tag = 0; tag < TAGS; tag++) {
		struct posted *posted = free_posted();

		if (!posted || run.tags[tag].posted >= run.tags[tag].sent)
			continue;
		posted->n = 1;
		must(choose_buffer(posted, 0, 0, tag, 0));
		irecv(posted);
	}
}

/* A group is done when all its buffers are filled. */
static void fill_posted(void)
{
	for (uint32_t tag = 0; tag < TAGS; tag++)
		while (run.tags[tag].posted > run.tags[tag].sent)
			new_message(tag % run.rails, tag, 300, 0);
}

static bool all_home(void)
{
	for (uint32_t i = 0; i < run.count; i++)
		if (!run.messages[i].done ||
		    (run.messages[i].flags & ANYNET_FLAG_ACK && !run.messages[i].acked))
			return false;
	return true;
}

/* Whatever was broken: now it is not, and everything arrives. */
static void bring_home(void)
{
	unsigned rounds = 0;

	fill_posted();
	for (unsigned i = 0; i < run.rails; i++)
		resume((uint16_t)i, run.rail[i].epoch + 1, false, false);
	while (!all_home()) {
		must(++rounds < ROUNDS_MAX);
		post_missing();
		for (unsigned i = 0; i < run.rails; i++)
			push(&run.rail[i], SIZE_MAX);
		test_all();
		comm_attend(run.comm); /* as the guardian does when nothing is posted */
		for (unsigned i = 0; i < run.rails; i++)
			hear(&run.rail[i]);
	}
}

/* The sender closes: a word on every rail. */
static void say_bye(void)
{
	struct anynet_wire_frame bye = { .type = ANYNET_FRAME_BYE, .seq = run.count };

	for (unsigned i = 0; i < run.rails; i++) {
		queue_frame(i, &bye);
		push(&run.rail[i], SIZE_MAX);
		must(run.rail[i].next == run.rail[i].count);
		peer_close(&run.rail[i].fd);
	}
	for (int i = 0; i < 4; i++) {
		comm_unpark(run.comm);
		comm_turn(run.comm);
	}
	must(run.comm->peer_closed);
	must(expected_status(0, run.rail[0].epoch + 1) == ANYNET_STATUS_GONE);
	resume(0, run.rail[0].epoch + 1, false, false);
	must(comm_error(run.comm) == (recv_pending(run.comm) ? -ECONNRESET : 0));
	run.wild = true; /* what is posted fails */
}

static void start(struct input *in, uint8_t order)
{
	for (unsigned i = 0; i < RAILS_MAX; i++) {
		struct peer_rail *peer = &run.rail[i];

		peer->fd = peer->coming = -1;
		peer->epoch = peer->count = peer->next = 0;
		peer->gone = peer->written = peer->in_bytes = 0;
		peer->spoiled = peer->flip = false;
		peer->told = peer->told_part = 0;
	}
	memset(run.slots, 0xff, sizeof(run.slots));
	memset(run.posted, 0, sizeof(run.posted));
	run.in = in;
	run.order = order;
	run.wild = run.multi = run.tag_known = false;
	run.count = 0;
	run.rails = 1 + (order >> RAILS_AT) % RAILS_MAX;
	for (unsigned i = 0; i < TAGS; i++)
		run.tags[i].sent = run.tags[i].posted = 0;
	run.comm = recv_comm_create(&local_dev, run.rails, LOCAL_RING_BYTES);
	must(run.comm);
	for (unsigned i = 0; i < run.rails; i++)
		run.rail[i].fd = local_rail(run.comm, i);
	must(!comm_open(run.comm));
}

void resume_receiving(struct input *in, uint8_t order)
{
	start(in, order);
	for (int i = 0; in->left && i < STEPS_MAX; i++)
		step();
	if (strict()) {
		bring_home();
		say_bye();
	}
	test_all();
	for (unsigned i = 0; i < run.rails; i++) {
		peer_close(&run.rail[i].fd);
		peer_close(&run.rail[i].coming);
	}
	if (run.wild)
		test_all();
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		for (int k = 0; k < run.posted[i].n; k++) {
			anynet_dereg_mr(run.comm, run.posted[i].mrs[k]);
			run.posted[i].mrs[k] = NULL;
		}
	recv_comm_destroy(run.comm);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		blank(&run.posted[i]);
}
