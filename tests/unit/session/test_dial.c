/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling, with and without a secret: to the product's accept engine with hellos of every kind, and to a peer with
 * arbitrary answers. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/dial.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"
#include "unit/local_net.h"

static char dir[] = "/tmp/anynet-dial-XXXXXX";
static char file[sizeof(dir) + 16];

static int make_secret(void **state)
{
	static const char text[] = "the secret of all ranks";
	int fd;

	(void)state;
	local_net_start();
	if (!mkdtemp(dir))
		return -1;
	snprintf(file, sizeof(file), "%s/secret", dir);
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return write(fd, text, sizeof(text)) == sizeof(text) ? close(fd) : -1;
}

static int remove_secret(void **state)
{
	(void)state;
	unlink(file);
	return rmdir(dir);
}

static int without_secret(void **state)
{
	(void)state;
	log_to_capture();
	secret_start("");
	return 0;
}

static int with_secret(void **state)
{
	without_secret(state);
	secret_start(file);
	return secret_known() ? 0 : 77;
}

/* --- the product's accept engine --- */

static struct anynet_listener *listener;
static struct anynet_comm *accepted;

static struct comm_paths listen_for(uint64_t comm_id)
{
	struct comm_paths paths = {
		.version = ANYNET_WIRE_VERSION, .comm_id = comm_id, .own_count = 1, .peer_count = 1
	};
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} handle;

	assert_int_equal(anynet_listen(&local_dev, &local_dev, handle.bytes, &listener), 0);
	paths.endpoint = handle.wire.endpoint;
	memcpy(paths.token, handle.wire.token, sizeof(paths.token));
	paths.dev = paths.own[0] = &local_dev;
	paths.peer[0] = paths.own_addrs[0] = handle.wire.addrs[0];
	return paths;
}

static int dial_to_the_end(struct dial *dial)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a dial to end");
	int ret;

	while ((ret = dial_step(dial)) == -EAGAIN) {
		if (!accepted)
			assert_int_equal(anynet_accept(listener, &accepted), 0);
		deadline_turn(&deadline);
	}
	return ret;
}

/* Returns the status of the welcome, or -errno. A stream that joins is closed at once. */
static int call(const struct comm_paths *paths, enum anynet_hello_kind kind, unsigned stream,
		uint32_t epoch)
{
	struct dial dial = DIAL_INIT;
	int ret;

	assert_true(dial_pair(&dial, paths, (struct anynet_wire_pair){ 0, 0 }));
	assert_int_equal(dial_start(&dial, paths, NULL, kind, stream, epoch), 0);
	ret = dial_to_the_end(&dial);
	if (!ret) {
		assert_int_equal(dial.hello->type, ANYNET_WELCOME);
		assert_int_equal(dial.hello->kind, kind);
		assert_int_equal(dial.hello->comm_id, paths->comm_id);
		ret = (int)dial.hello->status;
	}
	dial_close(&dial);
	return ret;
}

static void test_hellos_of_every_kind_are_answered(void **state)
{
	struct comm_paths paths = listen_for(0x1234), wrong = paths;

	(void)state;
	wrong.token[5] ^= 1;
	assert_int_equal(call(&wrong, ANYNET_KIND_COMM, 0, 0), -ENODATA);
	assert_int_equal(call(&paths, ANYNET_KIND_STREAM, 1, 0), -ENODATA);
	assert_int_equal(call(&paths, ANYNET_KIND_RESUME, 0, 1), ANYNET_STATUS_GONE);
	assert_int_equal(call(&paths, ANYNET_KIND_PROBE, 0, 0), ANYNET_STATUS_GONE);
	assert_int_equal(call(&paths, ANYNET_KIND_COMM, 0, 0), ANYNET_STATUS_OK);
	assert_int_equal(call(&paths, ANYNET_KIND_PROBE, 0, 0), ANYNET_STATUS_GONE);
	assert_int_equal(call(&wrong, ANYNET_KIND_STREAM, 0, 0), -ENODATA);
	assert_int_equal(call(&wrong, ANYNET_KIND_RESUME, 0, 9), ANYNET_STATUS_GONE);
	anynet_close_listener(listener);
	if (accepted)
		anynet_close(accepted);
	accepted = NULL;
	anynet_net_trim(&local_dev);
}

/* --- an arbitrary peer --- */

static int other; /* its listening socket */

static struct comm_paths find_other(void)
{
	struct comm_paths paths = {
		.version = ANYNET_WIRE_VERSION, .comm_id = 77, .own_count = 1, .peer_count = 1
	};

	other = socket_listen(&local_dev.addr, &local_cfg);
	assert_true(other >= 0);
	paths.dev = paths.own[0] = &local_dev;
	assert_true(
		socket_to_wire(&local_dev.addr, (uint16_t)socket_port(other), 0, &paths.peer[0]));
	return paths;
}

/* One dial, from both ends. */
struct line {
	struct dial dial;
	int fd;                         /* its end */
	struct anynet_wire_hello hello; /* as received */
	struct auth auth;               /* its side of the proof, if it has one */
};

static void wait_for(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
}

static void listen_to(struct line *line, struct anynet_wire_hello *message)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message");
	size_t got = 0;

	while (socket_recv_some(line->fd, message, sizeof(*message), &got)) {
		assert_int_equal(dial_step(&line->dial), -EAGAIN);
		deadline_turn(&deadline);
	}
}

static void ring(struct line *line)
{
	struct comm_paths paths = find_other();
	struct sockaddr_storage from;

	*line = (struct line){ .dial = DIAL_INIT };
	assert_true(dial_pair(&line->dial, &paths, (struct anynet_wire_pair){ 0, 0 }));
	assert_int_equal(dial_start(&line->dial, &paths, NULL, ANYNET_KIND_RESUME, 3, 9), 0);
	wait_for(other);
	line->fd = socket_accept(other, &from);
	assert_true(line->fd >= 0);
	listen_to(line, &line->hello);
}

static void answer(struct line *line, const struct anynet_wire_hello *message, size_t bytes)
{
	size_t sent = 0;

	assert_int_equal(socket_send_some(line->fd, message, bytes, &sent), 0);
}

static int end_of(struct line *line)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a dial to end");
	int ret;

	while ((ret = dial_step(&line->dial)) == -EAGAIN)
		deadline_turn(&deadline);
	return ret;
}

static void hang_up(struct line *line)
{
	dial_close(&line->dial);
	close(line->fd);
	close(other);
}

static struct anynet_wire_hello welcome_with(enum anynet_hello_status status)
{
	struct anynet_wire_hello welcome;

	hello_fill(&welcome, &local_dev, NULL, 0);
	welcome.type = ANYNET_WELCOME;
	welcome.kind = ANYNET_KIND_RESUME;
	welcome.stream = 3;
	welcome.epoch = 9;
	welcome.status = status;
	welcome.comm_id = 77;
	snprintf(welcome.host, sizeof(welcome.host), "elsewhere");
	snprintf(welcome.reason, sizeof(welcome.reason), "his own words");
	return welcome;
}

/* This is its whole answer; the dial's result is `status` with `reason`. */
static void comes_to(const struct anynet_wire_hello *message, enum anynet_hello_status status,
		     const char *reason)
{
	struct line line;

	ring(&line);
	answer(&line, message, sizeof(*message));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.state, DIAL_DONE);
	assert_int_equal(line.dial.hello->status, status);
	if (!strstr(line.dial.hello->reason, reason))
		fail_msg("'%s' does not say '%s'", line.dial.hello->reason, reason);
	hang_up(&line);
}

static void test_without_a_secret_a_welcome_is_believed(void **state)
{
	(void)state;
	for (unsigned status = 0; status < ANYNET_STATUS_COUNT; status++) {
		struct anynet_wire_hello welcome = welcome_with(status);

		comes_to(&welcome, status, "his own words");
	}
}

static void is_no_answer(const struct anynet_wire_hello *message)
{
	struct line line;

	ring(&line);
	answer(&line, message, sizeof(*message));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

static void test_an_answer_to_another_hello_is_ignored(void **state)
{
	struct anynet_wire_hello right = welcome_with(ANYNET_STATUS_OK), welcome;

	(void)state;
#define OTHER(field)                    \
	do {                            \
		welcome = right;        \
		welcome.field++;        \
		is_no_answer(&welcome); \
	} while (0)
	OTHER(kind);
	OTHER(stream);
	OTHER(epoch);
	OTHER(comm_id);
	OTHER(endpoint);
#undef OTHER
	comes_to(&right, ANYNET_STATUS_OK, "");
}

/* Without a proof only a refusal that an honest peer cannot prove is believed. */
static void test_with_a_secret_only_refusals_need_no_proof(void **state)
{
	(void)state;
	for (unsigned status = 0; status < ANYNET_STATUS_COUNT; status++) {
		struct anynet_wire_hello welcome = welcome_with(status);

		if (status == ANYNET_STATUS_VERSION || status == ANYNET_STATUS_AUTH)
			comes_to(&welcome, status, "his own words");
		else
			comes_to(&welcome, ANYNET_STATUS_AUTH, "has not proved that it knows");
	}
}

static void challenge(struct line *line, struct anynet_wire_hello *message)
{
	char why[sizeof(line->hello.reason)];

	ring(line);
	assert_int_equal(auth_judge(&line->auth, &line->hello, why, sizeof(why)), AUTH_CHALLENGE);
	assert_int_equal(auth_challenge(&line->auth, &line->hello, message), 0);
}

static void test_a_wrong_challenge_is_not_answered(void **state)
{
	struct anynet_wire_hello message;
	struct line line;
	char byte;

	(void)state;
	challenge(&line, &message);
	message.nonce[7] ^= 1;
	answer(&line, &message, sizeof(message));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.hello->status, ANYNET_STATUS_AUTH);
	assert_non_null(strstr(line.dial.hello->reason, "has not proved"));
	dial_close(&line.dial);
	wait_for(line.fd);
	assert_int_equal(recv(line.fd, &byte, 1, 0), 0);
	hang_up(&line);
}

/* The proof is right, but the challenge belongs to another connection. */
static void test_a_challenge_to_another_question_is_not_answered(void **state)
{
	struct anynet_wire_hello message;
	struct line line;

	(void)state;
	challenge(&line, &message);
	line.auth = (struct auth){ { 0 } };
	assert_int_equal(auth_check(&line.auth, &line.hello), 0);
	message.stream++;
	assert_int_equal(auth_prove(&line.auth, &message), 0);
	answer(&line, &message, sizeof(message));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

/* Up to the response, which is right. */
static void converse(struct line *line)
{
	struct anynet_wire_hello message;

	challenge(line, &message);
	answer(line, &message, sizeof(message));
	listen_to(line, &message);
	assert_int_equal(hello_check(&message, ANYNET_RESPONSE), 0);
	assert_int_equal(auth_check(&line->auth, &message), 0);
}

static void test_a_proven_welcome_is_believed(void **state)
{
	(void)state;
	for (unsigned status = 0; status < ANYNET_STATUS_COUNT; status++) {
		struct anynet_wire_hello welcome = welcome_with(status);
		struct line line;

		converse(&line);
		welcome.frames = 1000 + status;
		assert_int_equal(auth_prove(&line.auth, &welcome), 0);
		answer(&line, &welcome, sizeof(welcome));
		assert_int_equal(end_of(&line), 0);
		assert_int_equal(line.dial.hello->status, status);
		assert_int_equal(line.dial.hello->frames, 1000 + status);
		hang_up(&line);
	}
}

static void test_a_welcome_changed_on_the_way_is_not(void **state)
{
	struct anynet_wire_hello welcome = welcome_with(ANYNET_STATUS_OK);
	struct line line;

	(void)state;
	converse(&line);
	assert_int_equal(auth_prove(&line.auth, &welcome), 0);
	welcome.frames++;
	answer(&line, &welcome, sizeof(welcome));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.hello->status, ANYNET_STATUS_AUTH);
	hang_up(&line);
}

static void test_a_second_challenge_is_not_answered(void **state)
{
	struct anynet_wire_hello again;
	struct line line;

	(void)state;
	converse(&line);
	assert_int_equal(auth_challenge(&line.auth, &line.hello, &again), 0);
	answer(&line, &again, sizeof(again));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

static void test_without_a_secret_a_challenge_is_not_answered(void **state)
{
	struct anynet_wire_hello message = welcome_with(ANYNET_STATUS_OK);
	struct line line;

	(void)state;
	message.type = ANYNET_CHALLENGE;
	ring(&line);
	assert_int_equal(line.hello.features & ANYNET_FEATURE_SECRET, 0);
	answer(&line, &message, sizeof(message));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

static void test_other_versions_and_lost_lines_are_told(void **state)
{
	struct anynet_wire_hello welcome = welcome_with(ANYNET_STATUS_OK);
	struct line line;

	(void)state;
	welcome.version = ANYNET_WIRE_VERSION + 1;
	ring(&line);
	answer(&line, &welcome, offsetof(struct anynet_wire_hello, stream));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.hello->status, ANYNET_STATUS_VERSION);
	hang_up(&line);
	ring(&line);
	welcome.version = ANYNET_WIRE_VERSION;
	answer(&line, &welcome, 500);
	close(line.fd);
	assert_int_equal(end_of(&line), -ENODATA);
	dial_close(&line.dial);
	close(other);
}

static void test_an_unusable_secret_dials_nobody(void **state)
{
	struct comm_paths paths = find_other();
	struct sockaddr_storage from;
	struct dial dial = DIAL_INIT;

	(void)state;
	secret_start(dir);
	assert_true(dial_pair(&dial, &paths, (struct anynet_wire_pair){ 0, 0 }));
	assert_int_equal(dial_start(&dial, &paths, NULL, ANYNET_KIND_COMM, 0, 0), -EACCES);
	assert_int_equal(dial.state, DIAL_IDLE);
	assert_int_equal(socket_accept(other, &from), -EAGAIN);
	dial_close(&dial);
	close(other);
}

/* --- where the RDMA CM has failed --- */

/* The peer's PING, of which `bytes` come in time. The result of the dial. */
static int agree_with(size_t bytes, enum dial_state *state)
{
	struct anynet_wire_frame ping = { .type = ANYNET_FRAME_PING, .seq = ANYNET_PING_JOIN };
	struct dial dial = DIAL_INIT;
	int fds[2], ret;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	dial.fd = fds[0];
	dial.hello = calloc(1, sizeof(*dial.hello));
	dial.quiet = true;
	dial.state = DIAL_AGREE; /* its time is over */
	assert_int_equal(send(fds[1], &ping, bytes, 0), bytes);
	ret = dial_step(&dial);
	*state = dial.state;
	dial_close(&dial);
	close(fds[1]);
	return ret;
}

/* The connection goes on over TCP, unless the rest of the PING would be the head of the next frame. */
static void test_half_a_ping_is_not_left_in_the_connection(void **state)
{
	enum dial_state end;

	(void)state;
	assert_int_equal(agree_with(0, &end), 0);
	assert_int_equal(end, DIAL_DONE);
	assert_int_equal(agree_with(12, &end), -ETIMEDOUT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_hellos_of_every_kind_are_answered, without_secret),
		cmocka_unit_test_setup(test_hellos_of_every_kind_are_answered, with_secret),
		cmocka_unit_test_setup(test_without_a_secret_a_welcome_is_believed, without_secret),
		cmocka_unit_test_setup(test_an_answer_to_another_hello_is_ignored, without_secret),
		cmocka_unit_test_setup(test_with_a_secret_only_refusals_need_no_proof, with_secret),
		cmocka_unit_test_setup(test_a_wrong_challenge_is_not_answered, with_secret),
		cmocka_unit_test_setup(test_a_challenge_to_another_question_is_not_answered,
				       with_secret),
		cmocka_unit_test_setup(test_a_proven_welcome_is_believed, with_secret),
		cmocka_unit_test_setup(test_a_welcome_changed_on_the_way_is_not, with_secret),
		cmocka_unit_test_setup(test_a_second_challenge_is_not_answered, with_secret),
		cmocka_unit_test_setup(test_without_a_secret_a_challenge_is_not_answered,
				       without_secret),
		cmocka_unit_test_setup(test_other_versions_and_lost_lines_are_told, without_secret),
		cmocka_unit_test_setup(test_other_versions_and_lost_lines_are_told, with_secret),
		cmocka_unit_test_setup(test_an_unusable_secret_dials_nobody, with_secret),
		cmocka_unit_test_setup(test_half_a_ping_is_not_left_in_the_connection,
				       without_secret),
	};
	char why[512];

	if (hmac_open(hmac_library_names, why, sizeof(why))) {
		printf("SKIP %s\n", why);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_secret, remove_secret);
}
