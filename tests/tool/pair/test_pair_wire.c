/* SPDX-License-Identifier: Apache-2.0 */
/* The greeting and the frames of the control connection, and the requests that a client may send. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "tools/pair/request.h"
#include "tools/pair/wire.h"

#define SOON 50    /* ms, for what must not arrive */
#define LONG 20000 /* ms, for what must arrive */

struct ends {
	int a, b;
};

static int connect_ends(void **state)
{
	static struct ends ends;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ends = (struct ends){ fds[0], fds[1] };
	*state = &ends;
	return 0;
}

static int close_ends(void **state)
{
	const struct ends *e = *state;

	close(e->a);
	close(e->b);
	return 0;
}

static void put(int fd, const void *bytes, size_t count)
{
	assert_int_equal(pair_write(fd, bytes, count, LONG), 0);
}

static void test_greeting(void **state)
{
	const struct ends *e = *state;
	char opening[PAIR_OPENING_MAX + 1], reply[PAIR_GREETING];
	uint32_t version;

	put(e->a, "anynetPR\0\0\0\2", PAIR_GREETING);
	assert_int_equal(pair_greet(e->b, false, &version, opening, LONG), 0);
	assert_int_equal(version, PAIR_VERSION);
	assert_int_equal(pair_read(e->a, reply, sizeof(reply), LONG), 0);
	assert_memory_equal(reply, "anynetPR\0\0\0\2", PAIR_GREETING);
	put(e->a, "anynetPR\0\0\1\0", PAIR_GREETING);
	assert_int_equal(pair_greet(e->b, false, &version, opening, LONG), -EPROTONOSUPPORT);
	assert_int_equal(version, 256);
}

/* An unauthenticated peer is sent nothing, and its bytes are escaped when printed. */
static void test_unauthenticated_peer(void **state)
{
	const struct ends *e = *state;
	char opening[PAIR_OPENING_MAX + 1], reply;
	uint32_t version;

	put(e->a, "\033[2J\xff!", 6);
	assert_int_equal(pair_greet(e->b, false, &version, opening, LONG), -EPROTO);
	assert_string_equal(opening, ".[2J.!");
	assert_int_equal(recv(e->a, &reply, 1, MSG_DONTWAIT), -1);
	put(e->a, "any", 3);
	assert_int_equal(shutdown(e->a, SHUT_WR), 0);
	assert_int_equal(pair_greet(e->b, false, &version, opening, LONG), -EPROTO);
	assert_int_equal(pair_greet(e->b, false, &version, opening, LONG), -ECONNRESET);
}

static void test_frames(void **state)
{
	const struct ends *e = *state;
	json_t *sent = json_pack("{s:s, s:i}", "op", "x", "n", 7), *got;

	assert_int_equal(pair_send(e->a, sent, LONG), 0);
	assert_int_equal(pair_recv(e->b, &got, LONG), 0);
	assert_true(json_equal(sent, got));
	json_decref(got);
	json_object_set_new(sent, "long", json_stringn("", 0));
	for (int i = 0; i < 5; i++) {
		char key[8];
		static char text[PAIR_FRAME_MAX / 4];

		memset(text, 'x', sizeof(text) - 1);
		snprintf(key, sizeof(key), "%d", i);
		json_object_set_new(sent, key, json_string(text));
	}
	assert_int_equal(pair_send(e->a, sent, LONG), -EMSGSIZE);
	json_decref(sent);
}

static void refuse(int from, int to, const char *bytes, size_t count, int error)
{
	json_t *got;

	put(from, bytes, count);
	assert_int_equal(pair_recv(to, &got, error == -ETIMEDOUT ? SOON : LONG), error);
	assert_null(got);
}

static void test_bad_frames(void **state)
{
	const struct ends *e = *state;
	json_t *got;

	refuse(e->a, e->b, "\0\0\0\0", 4, -EPROTO);
	refuse(e->a, e->b, "\0\4\0\1", 4, -EPROTO);
	refuse(e->a, e->b, "\xff\xff\xff\xff", 4, -EPROTO);
	refuse(e->a, e->b, "\0\0\0\2[]", 6, -EPROTO);
	refuse(e->a, e->b, "\0\0\0\4nope", 8, -EPROTO);
	refuse(e->a, e->b, "\0\0\0\15{\"a\":1,\"a\":2}", 17, -EPROTO);
	refuse(e->a, e->b, "\0\0\0\11{\"a\":\"\xff\"}", 13, -EPROTO);
	refuse(e->a, e->b, "\0\0\0\5{", 5, -ETIMEDOUT);
	put(e->a, "\0\0\0\5{", 5);
	assert_int_equal(shutdown(e->a, SHUT_WR), 0);
	assert_int_equal(pair_recv(e->b, &got, LONG), -ECONNRESET);
}

/* Nested as deeply as a frame permits: rejected, without overflowing the stack. */
static void test_deep_frame(void **state)
{
	static char frame[4 + 32768];
	const struct ends *e = *state;

	memcpy(frame, "\0\0\x80\0", 4);
	memset(frame + 4, '[', sizeof(frame) - 4);
	refuse(e->a, e->b, frame, sizeof(frame), -EPROTO);
}

static void test_requests(void **state)
{
#define TOKEN      "\"token\": \"000102030405060708090a0b0c0d0e0f\""
#define DIAL(rest) "{\"op\": \"dial\", " TOKEN ", \"address\": \"\", " rest "}"
	static const char *const good[] = {
		"{\"op\": \"bye\"}",
		DIAL("\"port\": 1024, \"streams\": 1, \"bytes\": 1, \"ms\": 10000, \"mss\": 0"),
		("{\"op\": \"plugin\", \"transport\": \"ib\", \"dev\": 0, \"channels\": 16, "
		 "\"bytes\": 1, \"ms\": 0}"),
	};
	static const char *const bad[] = {
		"{}",
		"{\"op\": 5}",
		"{\"op\": \"sh\"}",
		"{\"op\": \"dial\"}",
		DIAL("\"port\": 22, \"streams\": 1, \"bytes\": 1, \"ms\": 1, \"mss\": 0"),
		DIAL("\"port\": 65536, \"streams\": 1, \"bytes\": 1, \"ms\": 1, \"mss\": 0"),
		DIAL("\"port\": 1024, \"streams\": 2, \"bytes\": 1, \"ms\": 1, \"mss\": 0"),
		DIAL("\"port\": 1024, \"streams\": 1, \"bytes\": 0, \"ms\": 1, \"mss\": 0"),
		DIAL("\"port\": 1024, \"streams\": 1, \"bytes\": 1, \"ms\": 10001, \"mss\": 0"),
		DIAL("\"port\": 1024, \"streams\": 1, \"bytes\": 1, \"ms\": 1.5, \"mss\": 0"),
		DIAL("\"port\": 1024, \"streams\": 1, \"bytes\": 1, \"ms\": 1, \"mss\": 100"),
		("{\"op\": \"dial\", \"token\": \"0\", \"address\": \"\", \"port\": 1024, "
		 "\"streams\": 1, \"bytes\": 1, \"ms\": 1, \"mss\": 0}"),
		("{\"op\": \"dial\", " TOKEN ", \"address\": \"example.com\", \"port\": 1024, "
		 "\"streams\": 1, \"bytes\": 1, \"ms\": 1, \"mss\": 0}"),
		("{\"op\": \"plugin\", \"transport\": \"/tmp/x.so\", \"dev\": 0, \"channels\": 1, "
		 "\"bytes\": 1, \"ms\": 0}"),
		("{\"op\": \"plugin\", \"transport\": \"tcp\", \"dev\": 0, \"channels\": 17, "
		 "\"bytes\": 1, \"ms\": 0}"),
	};
	struct request request;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		json_t *message = json_loads(good[i], 0, NULL);

		assert_int_equal(request_parse(message, &request), 0);
		json_decref(message);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *message = json_loads(bad[i], 0, NULL);

		assert_non_null(message);
		assert_int_equal(request_parse(message, &request), -1);
		json_decref(message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_greeting, connect_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_unauthenticated_peer, connect_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_frames, connect_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_bad_frames, connect_ends, close_ends),
		cmocka_unit_test_setup_teardown(test_deep_frame, connect_ends, close_ends),
		cmocka_unit_test(test_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
