/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling: to the product's accept engine with hellos of every kind, and to a peer with arbitrary answers.
 * test_dial_secret.c: what has to be proven. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/session/dial.h"
#include "transports/wire/secret.h"
#include "unit/session/line.h"

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
		cmocka_unit_test_setup(test_without_a_secret_a_challenge_is_not_answered,
				       without_secret),
		cmocka_unit_test_setup(test_other_versions_and_lost_lines_are_told, without_secret),
		cmocka_unit_test_setup(test_other_versions_and_lost_lines_are_told, with_secret),
		cmocka_unit_test_setup(test_half_a_ping_is_not_left_in_the_connection,
				       without_secret),
	};

	if (!secrets_work())
		return 77;
	return cmocka_run_group_tests(tests, make_secret, remove_secret);
}
