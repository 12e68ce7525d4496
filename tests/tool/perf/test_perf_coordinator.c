/* SPDX-License-Identifier: Apache-2.0 */
/* A run over two hosts, whose workers are threads of this test and may send invalid messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/pair/wire.h"
#include "tools/perf/perf_coordinator.h"
#include "tools/shared/member.h"

#define LONG_MS 60000
#define READY \
	"{'step': 'ready', 'net': 'n', 'path': 'p', 'abi': 12, 'places': [{'pid': 1, 'device': 'd', 'speed_mbps': 9}]}"
#define ZEROS(x)        x x x x x x x x x x x x x x x x
#define HANDLE          "'" ZEROS("0000000000000000") "'"
#define SLOTS(to, from) "{'step': 'slots', 'to': " to ", 'slots': [[" from ", 5, " HANDLE "]]}"
#define GO              "{'step': 'go'}"
#define ROW             "{'step': 'row', 'time_us': [2.0], 'wrong': [0]}"
#define ENDED           "{'step': 'ended', 'status': 0}"
#define WAIT            "" /* waits for the answer to the last step */
#define LAST            NULL

struct worker {
	int fd;
	const char *const *script;
	json_int_t slots; /* the sum of the indexes received */
	pthread_t thread;
};

static json_t *made_up(const char *text)
{
	char bytes[1024];
	size_t i = 0;

	for (; text[i]; i++)
		bytes[i] = (char)(text[i] == '\'' ? '"' : text[i]);
	bytes[i] = '\0';
	return json_loads(bytes, 0, NULL);
}

/* Waits for the coordinator's next step, and adds up the indexes received before. */
static int await_step(struct worker *w)
{
	json_t *message;
	bool done = false;

	while (!done) {
		const json_t *slots;

		if (pair_recv(w->fd, &message, LONG_MS))
			return -1;
		slots = json_object_get(message, "slots");
		done = !slots;
		for (size_t i = 0; i < json_array_size(slots); i++)
			w->slots += json_integer_value(json_array_get(json_array_get(slots, i), 1));
		json_decref(message);
	}
	return 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;

	if (!await_step(w)) { /* run */
		for (size_t i = 0; w->script[i] != LAST; i++) {
			int ret = *w->script[i]
					  ? pair_send_new(w->fd, made_up(w->script[i]), LONG_MS)
					  : await_step(w);

			if (ret)
				break;
		}
		await_step(w); /* bye, or the end of the connection */
	}
	close(w->fd);
	return NULL;
}

static char blamed[2][NODE_ERROR]; /* the errors of the two hosts in the last run */

/* Returns the result of a run in which the workers send these messages. *slots: the sum of the indexes that both
 * received. */
static int run(const char *const *first, const char *const *second, json_int_t *slots)
{
	const struct perf_options options = {
		.pattern = perf_pattern_of("sendrecv"),
		.here = 1,
		.ranks = 2,
		.min_bytes = 8,
		.max_bytes = 8,
		.factor = 2,
		.format = PERF_CSV,
	};
	struct worker workers[2] = { { .script = first }, { .script = second } };
	struct node nodes[2];
	int result;

	for (int i = 0; i < 2; i++) {
		int ends[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		nodes[i] = (struct node){ .fd = ends[0], .errors = -1 };
		snprintf(nodes[i].name, sizeof(nodes[i].name), "h%d", i);
		workers[i].fd = ends[1];
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	result = perf_coordinate(nodes, 2, &options);
	for (int i = 0; i < 2; i++) {
		pthread_join(workers[i].thread, NULL);
		memcpy(blamed[i], nodes[i].error, sizeof(blamed[i]));
	}
	*slots = workers[0].slots + workers[1].slots;
	return result;
}

static const char *const good_first[] = { SLOTS("0", "1"), READY, WAIT, ROW, WAIT, ENDED, LAST };
static const char *const good_second[] = { SLOTS("1", "0"), READY, WAIT, ROW, WAIT, ENDED, LAST };

/* Each worker gets only the addresses to which it connects. */
static void test_run(void **state)
{
	static const char *const first[] = { "{'step': 'slots', 'to': 0, 'slots': [[1, 5, " HANDLE
					     "], [0, 70, " HANDLE "]]}",
					     READY,
					     WAIT,
					     ROW,
					     WAIT,
					     ENDED,
					     LAST };
	json_int_t slots;

	(void)state;
	assert_int_equal(run(first, good_second, &slots), GROUP_OK);
	assert_int_equal(slots, 10);
}

/* Ranks time out while they wait for another host: the coordinator does not wait for that host. */
static void test_ranks_time_out(void **state)
{
	static const char *const waits[] = { SLOTS("0", "1"),
					     READY,
					     WAIT,
					     GO,
					     "{'step': 'said', 'text': 'no progress'}",
					     "{'step': 'ended', 'status': 1}",
					     LAST };
	static const char *const silent[] = { SLOTS("1", "0"), READY, WAIT, LAST };
	json_int_t slots;

	(void)state;
	assert_int_equal(run(waits, silent, &slots), GROUP_ERROR);
}

static void test_wrong_results(void **state)
{
	static const char *const wrong[] = {
		SLOTS("1", "0"), READY, WAIT, ROW, WAIT, "{'step': 'ended', 'status': 2}", LAST
	};
	json_int_t slots;

	(void)state;
	assert_int_equal(run(good_first, wrong, &slots), GROUP_WRONG);
}

static void test_invalid(void **state)
{
	static const char *const scripts[][8] = {
		{ "{}", LAST },
		{ READY, LAST },
		{ SLOTS("1", "0"), SLOTS("1", "0"), READY, LAST },
		{ SLOTS("1", "0"), READY, READY, LAST },
		{ SLOTS("1", "0"), GO, LAST },
		{ SLOTS("1", "0"), "{'step': 'ready', 'places': []}", LAST },
		{ SLOTS("1", "0"), READY, WAIT, GO, LAST },
		{ SLOTS("1", "0"), READY, WAIT, "{'step': 'row'}", LAST },
		{ SLOTS("1", "0"), READY, WAIT, "{'step': 'row', 'time_us': [0.0], 'wrong': [0]}",
		  LAST },
		{ SLOTS("1", "0"), READY, WAIT, "{'step': 'row', 'time_us': [1.0], 'wrong': ['x']}",
		  LAST },
		{ SLOTS("1", "0"), READY, WAIT, "{'step': 'ended', 'status': 77}", LAST },
	};
	json_int_t slots;

	(void)state;
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (run(good_first, scripts[i], &slots) != GROUP_ERROR)
			fail_msg("accepted: script %zu", i);
	}
}

/* What other hosts would get is checked first: the host that sent it is lost, and no other one. */
static void test_invalid_slots(void **state)
{
	static const char *const bad[] = {
		"{'step': 'slots', 'slots': []}",
		"{'step': 'slots', 'to': '1', 'slots': []}",
		SLOTS("0", "0"), /* a rank of the other host */
		"{'step': 'slots', 'to': 1, 'slots': [5]}",
		"{'step': 'slots', 'to': 1, 'slots': [[0, 5]]}",
		"{'step': 'slots', 'to': 1, 'slots': [[0, 5, '00']]}",
		"{'step': 'slots', 'to': 1, 'slots': [[0, 256, " HANDLE "]]}",
		"{'step': 'slots', 'to': 1, 'slots': [['0', 5, " HANDLE "]]}",
	};
	json_int_t slots;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *const script[] = { bad[i], READY, WAIT, ROW, WAIT, ENDED, LAST };

		assert_int_equal(run(good_first, script, &slots), GROUP_ERROR);
		if (*blamed[0] || !strstr(blamed[1], "invalid message"))
			fail_msg("%s: '%s', '%s'", bad[i], blamed[0], blamed[1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run),           cmocka_unit_test(test_ranks_time_out),
		cmocka_unit_test(test_wrong_results), cmocka_unit_test(test_invalid),
		cmocka_unit_test(test_invalid_slots),
	};

	alarm(280); /* a run without an end fails */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
