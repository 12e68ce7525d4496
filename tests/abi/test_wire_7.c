/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer of wire version 7, the first release, by its bytes: recorded from 0.1.0. No header of the product is used
 * here, so later releases have to keep talking to it, or say that they do not. Both directions.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>

#define HELLO_BYTES 920
#define FRAME_BYTES 32
#define BYTES       100000
#define DEVICE_OF_7 "eth7"

enum frame_type { DATA = 1, READY = 3, BYE = 4, ACK = 6 };
enum frame_flag { WAITS = 2, TAIL = 8 };

/* Zero elsewhere. Names, addresses and process ids are made up; values of the job are filled in. */
struct record {
	size_t offset;
	const char *bytes;
	size_t count;
};
#define AT(offset, text) { offset, text, sizeof(text) - 1 }

static const struct record handle_7[] = {
	AT(0, "\377ANYNTH1\7\0\1\7"),
	AT(32, "\4\0"),
};
static const struct record hello_7[] = {
	AT(0, "\377ANNELO1\7\0\1\1\x98\3\0\0"),
	AT(50, "\1\0"),
	AT(56, "\x10\x20\0\0\0\0\0\0\0\1\0\0\1\0\0\0"),
	AT(76, "\0\x80\0\0\0\0\2\0\10\0\0\0"),
	AT(88, "\xef\xcd\xab\x90\x78\x56\x34\x12\x10\x27\0\0"),
	AT(224, "\4\0\0\0\177\0\0\1"),
	AT(512, "host7"),
	AT(576, DEVICE_OF_7),
};
static const struct record welcome_7[] = {
	AT(0, "\377ANNELO1\7\0\2\1\x98\3\0\0"),
	AT(50, "\1\0"),
	AT(56, "\x10\x20\0\0\0\0\0\0\0\1\0\0\1\0\0\0"),
	AT(76, "\0\x80\0\0\0\0\2\0\10\0\0\0"),
	AT(96, "\x10\x27\0\0"),
	AT(224, "\4\0"),
	AT(228, "\177\0\0\1"),
	AT(512, "host7"),
	AT(576, DEVICE_OF_7),
};
#define PLAY(message, bytes, records) \
	play(message, bytes, records, sizeof(records) / sizeof((records)[0]))

static void play(unsigned char *message, size_t bytes, const struct record *records, size_t count)
{
	memset(message, 0, bytes);
	for (size_t i = 0; i < count; i++)
		memcpy(message + records[i].offset, records[i].bytes, records[i].count);
}

static uint64_t field(const unsigned char *at, int bytes)
{
	uint64_t value = 0;

	for (int i = bytes; i--;)
		value = value << 8 | at[i];
	return value;
}

static void put(unsigned char *at, int bytes, uint64_t value)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (unsigned char)(value >> 8 * i);
}

/* The plugin's end, and the peer's socket. The plugin is called while the peer waits. */
struct talk {
	struct test_net *net;
	struct link link;
	struct transfer transfer;
	int fd;
	struct deadline deadline;
};

static void turn(struct talk *talk)
{
	struct link *link = &talk->link;

	if (talk->transfer.req && !talk->transfer.done)
		check_ok(transfer_test(talk->net, &talk->transfer));
	else if (link->listener && !link->recv)
		link_accept_step(talk->net, link);
	else if (!link->listener && !link->recv && !link->send)
		link_connect_step(talk->net, link);
	deadline_turn(&talk->deadline);
}

static void say(const struct talk *talk, const void *data, size_t bytes)
{
	check_int(send(talk->fd, data, bytes, MSG_NOSIGNAL), bytes);
}

static void hear(struct talk *talk, void *data, size_t bytes)
{
	for (size_t got = 0; got < bytes; turn(talk)) {
		ssize_t n = recv(talk->fd, (char *)data + got, bytes - got, MSG_DONTWAIT);

		check_that(n > 0 || (n < 0 && errno == EAGAIN), "it hung up after %zu bytes", got);
		got += n > 0 ? (size_t)n : 0;
	}
}

static void say_frame(const struct talk *talk, int type, int flags, uint32_t seq, uint32_t length,
		      uint64_t size)
{
	unsigned char frame[FRAME_BYTES] = { (unsigned char)type, (unsigned char)flags };

	put(frame + 8, 4, seq);
	put(frame + 12, 4, length);
	put(frame + 24, 8, size);
	say(talk, frame, sizeof(frame));
}

/* The next frame of that type; the peer does not need the others in between. */
static void hear_frame(struct talk *talk, int type, unsigned char *frame)
{
	unsigned char payload[FRAME_BYTES];

	for (;;) {
		hear(talk, frame, FRAME_BYTES);
		if (frame[0] == type)
			return;
		check_that(frame[0] != DATA && field(frame + 12, 4) <= sizeof(payload),
			   "a frame of type %d", frame[0]);
		hear(talk, payload, field(frame + 12, 4));
	}
}

static void test_a_connector_of_version_7_is_accepted(struct test_net *net)
{
	struct talk talk = { .net = net,
			     .deadline =
				     deadline_in(TEST_PATIENCE_MS, "the connector of version 7") };
	unsigned char hello[HELLO_BYTES], frame[FRAME_BYTES], slots[32];
	struct sockaddr_in addr = { .sin_family = AF_INET };
	static unsigned char from[BYTES], to[BYTES];

	link_listen(net, &talk.link);
	const unsigned char *handle = link_handle(&talk.link);

	check(!memcmp(handle, handle_7[0].bytes, 8) && field(handle + 8, 2) >= 7 &&
	      handle[11] <= 7);
	check_int(handle[32], 4);
	addr.sin_port = htons((uint16_t)field(handle + 34, 2));
	memcpy(&addr.sin_addr, handle + 36, 4);
	talk.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	check_ok(connect(talk.fd, (const struct sockaddr *)&addr, sizeof(addr)));
	PLAY(hello, sizeof(hello), hello_7);
	memcpy(hello + 16, handle + 12, 4);
	memcpy(hello + 24, handle + 16, 16);
	put(hello + 40, 8, 0x1234567890abcdef);
	say(&talk, hello, sizeof(hello));
	hear(&talk, hello, sizeof(hello));
	check(!memcmp(hello, welcome_7[0].bytes, welcome_7[0].count));
	check_int(field(hello + 20, 4), 0); /* OK */
	check_int(field(hello + 50, 2), 1); /* streams */
	say_frame(&talk, READY, 0, 0, 0, 1);
	while (!talk.link.recv)
		turn(&talk);

	talk.transfer =
		transfer_of(to, sizeof(to), 0, flow_reg(net, talk.link.recv, to, sizeof(to)));
	transfer_post_soon(net, talk.link.recv, false, &talk.transfer);
	pattern_fill(from, sizeof(from), 7);
	say_frame(&talk, DATA, WAITS, 0, BYTES, BYTES);
	say(&talk, from, sizeof(from));
	while (!talk.transfer.done)
		turn(&talk);
	check_int(talk.transfer.sizes[0], BYTES);
	pattern_check(to, sizeof(to), 7);
	check_ok(driver_dereg_mr(net->driver, talk.link.recv, talk.transfer.mhandles[0]));
	hear_frame(&talk, ACK, frame);
	check_int(field(frame + 12, 4), sizeof(slots));
	hear(&talk, slots, sizeof(slots));
	check_int(slots[0], 1);
	say_frame(&talk, BYE, 0, 1, 0, 0);
	link_close(net, &talk.link);
	close(talk.fd);
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
}

/* The address on which a peer of version 7 listens. */
static int listen_7(struct sockaddr_in *addr)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t bytes = sizeof(*addr);

	*addr = (struct sockaddr_in){ .sin_family = AF_INET,
				      .sin_addr = { htonl(INADDR_LOOPBACK) } };
	check_ok(bind(fd, (const struct sockaddr *)addr, sizeof(*addr)));
	check_ok(listen(fd, 8));
	check_ok(getsockname(fd, (struct sockaddr *)addr, &bytes));
	check_ok(fcntl(fd, F_SETFL, O_NONBLOCK));
	return fd;
}

static void welcome(struct talk *talk, const unsigned char *handle)
{
	unsigned char hello[HELLO_BYTES], answer[HELLO_BYTES];

	hear(talk, hello, sizeof(hello));
	check(!memcmp(hello, hello_7[0].bytes, hello_7[0].count)); /* in version 7 */
	check(!memcmp(hello + 16, handle + 12, 4) && !memcmp(hello + 24, handle + 16, 16));
	PLAY(answer, sizeof(answer), welcome_7);
	memcpy(answer + 16, hello + 16, 4);   /* endpoint */
	memcpy(answer + 40, hello + 40, 8);   /* comm_id */
	memcpy(answer + 52, hello + 52, 4);   /* epoch */
	memcpy(answer + 226, handle + 34, 2); /* port */
	say(talk, answer, sizeof(answer));
}

static void test_an_acceptor_of_version_7_is_connected_to(struct test_net *net)
{
	struct talk talk = { .net = net,
			     .deadline =
				     deadline_in(TEST_PATIENCE_MS, "the acceptor of version 7") };
	unsigned char handle[DRIVER_HANDLE_BYTES], frame[FRAME_BYTES], slots[32] = { 1 };
	static unsigned char from[BYTES], to[BYTES];
	struct sockaddr_in addr;
	int listener = listen_7(&addr);

	link_listen(net, &talk.link); /* for the handle's place */
	check_ok(driver_close_listen(net->driver, talk.link.listener));
	talk.link.listener = NULL;
	PLAY(handle, sizeof(handle), handle_7);
	put(handle + 12, 4, 3);
	memset(handle + 16, 0xa7, 16);
	put(handle + 34, 2, ntohs(addr.sin_port));
	memcpy(handle + 36, &addr.sin_addr, 4);
	memcpy(link_copy(&talk.link), handle, sizeof(handle));
	while ((talk.fd = accept(listener, NULL, NULL)) < 0)
		turn(&talk);
	welcome(&talk, handle);
	hear_frame(&talk, READY, frame);
	while (!talk.link.send)
		turn(&talk);

	pattern_fill(from, sizeof(from), 8);
	talk.transfer = transfer_of(from, sizeof(from), 0,
				    flow_reg(net, talk.link.send, from, sizeof(from)));
	transfer_post_soon(net, talk.link.send, true, &talk.transfer);
	for (size_t got = 0; got < sizeof(to);) {
		size_t offset, length;
		char tail;

		hear_frame(&talk, DATA, frame);
		offset = field(frame + 16, 8);
		length = field(frame + 12, 4);
		check_int(field(frame + 24, 8), BYTES);
		check(offset <= sizeof(to) && length <= sizeof(to) - offset);
		hear(&talk, to + offset, length);
		if (frame[1] & TAIL)
			hear(&talk, &tail, 1);
		got += length;
	}
	pattern_check(to, sizeof(to), 8);
	say_frame(&talk, ACK, 0, 1, sizeof(slots), 0);
	say(&talk, slots, sizeof(slots));
	while (!talk.transfer.done)
		turn(&talk);
	check_ok(driver_dereg_mr(net->driver, talk.link.send, talk.transfer.mhandles[0]));
	link_close(net, &talk.link);
	hear_frame(&talk, BYE, frame);
	check_int(field(frame + 8, 4), 1);
	close(talk.fd);
	close(listener);
	check_int(capture_count(CAPTURE_WARN, NULL), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ .name = "a connector of version 7 is accepted",
		  test_a_connector_of_version_7_is_accepted },
		{ .name = "an acceptor of version 7 is connected to",
		  test_an_acceptor_of_version_7_is_connected_to },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
