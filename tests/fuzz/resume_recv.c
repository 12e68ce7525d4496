/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receive comm whose sender is the input. As long as the input sends nothing wrong it is a correct sender
 * (peer_sender.h), which checks the comm's frames; in the end every message must arrive, whatever broke before.
 */
#include <errno.h>
#include <sys/socket.h>

#include "buffers.h"
#include "peer_sender.h"
#include "transports/session/recovery.h"

/* The messages and receives of a tag, in order. */
struct tag_state {
	uint32_t sent, posted;
	uint32_t messages[SENDER_MESSAGES_MAX];
	uint32_t room[4 * SENDER_MESSAGES_MAX];
};

struct run {
	struct input *in;
	struct anynet_comm *comm;
	uint8_t order;
	unsigned streams;
	struct sender sender;
	uint32_t epochs[STREAMS_MAX];
	int coming[STREAMS_MAX]; /* has sent RESUME, the answer is not read yet; -1 = none */
	struct tag_state tags[TAGS];
	struct posted posted[ANYNET_REQUESTS];
	uint32_t index[ANYNET_REQUESTS][ANYNET_RECVS_MAX]; /* among the receives of their tags */
};

static struct run run;

static bool strict(void)
{
	return !run.sender.wild;
}

/* --- resuming --- */

/* Passes the comm a connection with a RESUME. Returns the input's end. */
static int say_resume(uint16_t stream, uint32_t epoch)
{
	struct anynet_wire_hello hello;
	int fds[2];

	hello_fill(&hello, &local_dev, NULL, 0);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.stream = stream;
	hello.epoch = epoch;
	peer_pair(fds);
	must(!recovery_post(run.comm, fds[0], &hello, NULL));
	comm_poke(run.comm);
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

static uint32_t expected_status(uint16_t stream, uint32_t epoch)
{
	if (comm_error(run.comm) || run.comm->peer_closed)
		return ANYNET_STATUS_GONE;
	if (stream >= run.streams || !run.comm->streams[stream] ||
	    (int32_t)(epoch - run.epochs[stream]) <= 0)
		return ANYNET_STATUS_STALE;
	return ANYNET_STATUS_OK;
}

/* The comm knows a connection that the input does not continue. */
static void give_up(unsigned stream)
{
	peer_close(&run.coming[stream]);
	peer_close(&run.sender.stream[stream].fd);
	run.sender.stream[stream].written = HEADER_BYTES; /* at most */
}

/* Reads the answer to the RESUME, and continues over the connection, or loses it. */
static void take_welcome(unsigned stream, bool lost)
{
	struct anynet_wire_hello welcome;
	int fd = run.coming[stream];

	if (fd < 0)
		return;
	if (!read_welcome(fd, &welcome) || welcome.status) {
		must(!strict() || take_budget == 0);
		give_up(stream);
	} else if (lost) {
		sender_note_position(&run.sender, stream, &welcome);
		give_up(stream);
		run.sender.stream[stream].written = 0;
	} else {
		run.coming[stream] = -1;
		sender_go_on(&run.sender, stream, fd, &welcome);
	}
}

static void resume(uint16_t stream, uint32_t epoch, bool later, bool lost)
{
	uint32_t status = expected_status(stream, epoch);
	struct anynet_wire_hello welcome;
	int fd = say_resume(stream, epoch);

	if (status != ANYNET_STATUS_OK) {
		must(read_welcome(fd, &welcome) ? welcome.status == status : !take_budget);
		peer_close(&fd);
		return;
	}
	if (run.coming[stream] >= 0)
		give_up(stream);
	run.epochs[stream] = epoch;
	run.coming[stream] = fd;
	if (!later || !take_budget)
		take_welcome(stream, lost);
}

static void resume_somehow(unsigned stream)
{
	uint8_t choice = input_u8(run.in);
	uint32_t epoch = run.epochs[stream];

	if (run.coming[stream] >= 0 && choice & 7) {
		take_welcome(stream, choice & 0x10);
		return;
	}
	if (choice & 0x40)
		sender_hear(&run.sender, stream);
	if (choice & 0x80)
		peer_close(&run.sender.stream[stream].fd);
	switch (choice & 7) {
	case 0:
		epoch += input_step(run.in);
		break;
	case 1:
		epoch ^= (uint32_t)input_u16(run.in) << 16;
		break;
	case 2:
		stream = input_u16(run.in) % ANYNET_STREAMS_MAX; /* others do not get so far */
		epoch += 1;
		break;
	case 3:
		take_budget = input_u16(run.in) % 1024;
		epoch += 2;
		break;
	default:
		epoch += 1 + (choice >> 3 & 1);
	}
	resume((uint16_t)stream, epoch, choice & 0x20, choice & 0x10 && (choice & 7) < 6);
	take_budget = SIZE_MAX;
}

/* --- what NCCL does --- */

static void new_message(unsigned stream, uint32_t tag, uint32_t size, uint8_t layout)
{
	struct tag_state *line = &run.tags[tag];

	if (line->posted > line->sent)
		size = (uint32_t)anynet_min(size, line->room[line->sent]);
	line->messages[line->sent++] = run.sender.count;
	sender_message(&run.sender, stream, tag, size, layout);
}

static void some_message(unsigned stream)
{
	uint32_t size = choose_size(run.in);
	uint8_t choice = input_u8(run.in);

	if (run.sender.count < SCRIPT_MAX)
		new_message(stream, (choice >> 4) % TAGS, size, choice & 7);
}

/* False: no more of the tag are possible. */
static bool add_buffer(struct posted *posted, uint8_t choice, uint32_t tag, uint32_t bytes)
{
	struct tag_state *line = &run.tags[tag];

	if (line->posted == ARRAY_SIZE(line->room))
		return false;
	if (line->sent > line->posted)
		bytes = run.sender.messages[line->messages[line->posted]].size +
			(choice & 0x80 ? 7 : 0);
	run.index[posted - run.posted][posted->n] = line->posted;
	line->room[line->posted++] = bytes;
	posted_add(run.comm, posted, choice & 0x40 ? BUFFER_REGISTERED : BUFFER_PLAIN, bytes,
		   (int)tag);
	return true;
}

static void irecv(struct posted *posted)
{
	must(!posted_post(run.comm, posted) || !strict());
	if (posted->req)
		return;
	for (int i = posted->n - 1; i >= 0; i--)
		run.tags[posted->tags[i]].posted--;
	posted_blank(run.comm, posted);
}

static void post(void)
{
	struct posted *posted = posted_free_one(run.posted);
	uint8_t shape;

	if (!posted || comm_error(run.comm))
		return;
	shape = input_u8(run.in);
	for (int i = 0; i < (shape & 0x80 ? 1 + shape % ANYNET_RECVS_MAX : 1); i++) {
		uint8_t choice = input_u8(run.in);
		uint32_t bytes = choice & 0x08 ? BYTES_MAX : choose_size(run.in);

		if (!add_buffer(posted, choice, choice % TAGS, bytes))
			break;
	}
	if (posted->n)
		irecv(posted);
}

/* It is the next message. */
static void check_received(const struct posted *posted, int i, size_t got)
{
	const struct tag_state *line = &run.tags[posted->tags[i]];
	uint32_t index = run.index[posted - run.posted][i], number;
	struct sender_message *msg;

	if (!strict())
		return;
	must(index < line->sent);
	number = line->messages[index];
	msg = &run.sender.messages[number];
	must(got == msg->size && sender_has_written(&run.sender, number));
	must(!memcmp(posted->buffers[i].data, pattern(number, 0), got));
	msg->done = true;
}

static void test(struct posted *posted)
{
	int got[ANYNET_RECVS_MAX];

	if (posted_test(run.comm, posted, got)) {
		for (int i = 0; i < posted->n; i++)
			check_received(posted, i, (size_t)got[i]);
		posted_blank(run.comm, posted);
		must(!comm_error(run.comm)); /* nothing was in flight any more */
	}
	must(!strict() || !comm_error(run.comm));
}

static void test_all(void)
{
	take_again(run.comm);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		test(&run.posted[i]);
}

/* --- errors --- */

/* A wrong frame of the stream, in its place. */
static void wrong_frame(struct sender_stream *stream)
{
	struct anynet_wire_frame *header;
	uint8_t at = input_u8(run.in) % HEADER_BYTES;

	if (stream->next == stream->count)
		return;
	header = &stream->frames[stream->next].header;
	((uint8_t *)header)[at] ^= input_u8(run.in);
	header->seq %= SENDER_MESSAGES_MAX;
}

static void go_wild(struct sender_stream *stream, uint8_t which)
{
	if (!(run.order & WILD))
		return;
	run.sender.wild = true;
	if (which == 0)
		posted_take_back(run.comm, &run.posted[input_u8(run.in) % ANYNET_REQUESTS]);
	else if (which == 1)
		peer_garbage(stream->fd, run.in);
	else
		wrong_frame(stream);
}

/* --- the script --- */

static void step(void)
{
	uint8_t op = input_u8(run.in);
	unsigned index = (op >> 4) % run.streams;
	struct sender_stream *stream = &run.sender.stream[index];

	switch (op & 0x0f) {
	case 0:
	case 1:
		post();
		break;
	case 2:
	case 3:
		some_message(index);
		break;
	case 4:
		sender_push(&run.sender, index, input_u8(run.in));
		break;
	case 5:
		sender_push(&run.sender, index, input_u16(run.in));
		break;
	case 6:
		sender_push(&run.sender, index, SIZE_MAX);
		break;
	case 7:
		test(&run.posted[input_u8(run.in) % ANYNET_REQUESTS]);
		break;
	case 8:
		test_all();
		break;
	case 9:
		sender_hear(&run.sender, index);
		break;
	case 10:
	case 11:
		resume_somehow(index);
		break;
	case 12:
		if (op & 0x80)
			shutdown(stream->fd, SHUT_WR);
		else
			peer_close(&stream->fd);
		break;
	case 13:
		take_budget = input_u8(run.in);
		test_all();
		take_budget = SIZE_MAX;
		break;
	case 14:
		if (op & 0x80)
			sender_ping(&run.sender, index);
		else
			stream->flip = run.comm->checksum && stream->fd >= 0;
		break;
	default:
		go_wild(stream, op >> 4 & 3);
	}
}

/* Posts receives for waiting messages. */
static void post_missing(void)
{
	for (uint32_t tag = 0; tag < TAGS; tag++) {
		struct posted *posted = posted_free_one(run.posted);

		if (!posted || run.tags[tag].posted >= run.tags[tag].sent)
			continue;
		must(add_buffer(posted, 0, tag, 0));
		irecv(posted);
	}
}

/* A group is done when all its buffers are filled. */
static void fill_posted(void)
{
	for (uint32_t tag = 0; tag < TAGS; tag++)
		while (run.tags[tag].posted > run.tags[tag].sent)
			new_message(tag % run.streams, tag, 300, 0);
}

/* No more breaks: everything arrives. */
static void bring_home(void)
{
	unsigned rounds = 0;

	fill_posted();
	for (unsigned i = 0; i < run.streams; i++)
		resume((uint16_t)i, run.epochs[i] + 1, false, false);
	while (!sender_all_home(&run.sender)) {
		must(++rounds < ROUNDS_MAX);
		post_missing();
		for (unsigned i = 0; i < run.streams; i++)
			sender_push(&run.sender, i, SIZE_MAX);
		test_all();
		comm_attend(run.comm); /* as the background thread does when nothing is posted */
		for (unsigned i = 0; i < run.streams; i++)
			sender_hear(&run.sender, i);
	}
}

/* The sender closes: a frame on every stream. */
static void say_bye(void)
{
	sender_bye(&run.sender);
	for (unsigned i = 0; i < run.streams; i++) {
		sender_push(&run.sender, i, SIZE_MAX);
		must(run.sender.stream[i].next == run.sender.stream[i].count);
		peer_close(&run.sender.stream[i].fd);
	}
	for (int i = 0; i < 4; i++) {
		comm_unpark(run.comm);
		comm_turn(run.comm);
	}
	must(run.comm->peer_closed);
	must(expected_status(0, run.epochs[0] + 1) == ANYNET_STATUS_GONE);
	resume(0, run.epochs[0] + 1, false, false);
	must(comm_error(run.comm) == (comm_pending(run.comm) ? -ECONNRESET : 0));
	run.sender.wild = true; /* posted receives fail */
}

static void start(struct input *in, uint8_t order)
{
	memset(run.posted, 0, sizeof(run.posted));
	run.in = in;
	run.order = order;
	run.streams = streams_wanted(order);
	for (unsigned i = 0; i < TAGS; i++)
		run.tags[i].sent = run.tags[i].posted = 0;
	run.comm = recv_comm_create(&local_dev, run.streams, LOCAL_RING_BYTES);
	must(run.comm);
	sender_start(&run.sender, run.comm, run.streams);
	for (unsigned i = 0; i < run.streams; i++) {
		run.sender.stream[i].fd = local_stream(run.comm, i);
		run.coming[i] = -1;
		run.epochs[i] = 0;
	}
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
	for (unsigned i = 0; i < run.streams; i++) {
		peer_close(&run.sender.stream[i].fd);
		peer_close(&run.coming[i]);
	}
	if (!strict())
		test_all();
	posted_close(run.comm, run.posted);
}
