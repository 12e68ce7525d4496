/* SPDX-License-Identifier: Apache-2.0 */
/* anynet cluster --live with a worker that is a thread of this test, and reports its facts in several messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/cluster/live.h"
#include "tools/cluster/live_parts.h"
#include "tools/cluster/order.h"
#include "tools/pair/wire.h"

#define LONG_MS   60000
#define PROCESSES 1000 /* the last one is stopped */

struct worker {
	int fd;
	bool endless; /* its messages never end */
	pthread_t thread;
};

static json_t *facts_new(void)
{
	json_t *processes = json_array();

	for (int pid = 1; pid <= PROCESSES; pid++)
		json_array_append_new(processes,
				      json_pack("{s:s, s:i, s:i}", "host", "n1", "pid", pid,
						"silent_ms", pid == PROCESSES ? 9000 : 0));
	return json_pack("{s:o, s:[], s:[]}", "processes", processes, "waits", "paths");
}

static int send_facts(const struct worker *w, const json_t *facts)
{
	bool more = true;
	int ret = 0;

	for (size_t row = 0; more && !ret; row = w->endless ? 0 : row) {
		json_t *part = live_part(facts, &row);

		more = json_is_true(json_object_get(part, "more"));
		ret = pair_send_new(w->fd, part, LONG_MS);
	}
	return ret;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	json_t *facts = facts_new(), *message;
	struct order order = { .op = ORDER_STATS };

	while (order.op != ORDER_BYE && !pair_recv(w->fd, &message, LONG_MS)) {
		order_parse(message, &order);
		json_decref(message);
		if (order.op == ORDER_STATS && send_facts(w, facts))
			break;
	}
	json_decref(facts);
	close(w->fd);
	return NULL;
}

/* Returns the exit status after one look. */
static int look_at(bool endless, char *error)
{
	const struct live_options once = { .every = 2, .during = 1 };
	struct node node = { .name = "h1", .errors = -1 };
	struct worker w = { .endless = endless };
	int ends[2], status;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	node.fd = ends[0];
	w.fd = ends[1];
	assert_int_equal(pthread_create(&w.thread, NULL, work, &w), 0);
	status = live_run(&node, 1, &once);
	pthread_join(w.thread, NULL);
	snprintf(error, NODE_ERROR, "%s", node.error);
	return status;
}

static void test_facts_in_several_messages(void **state)
{
	char error[NODE_ERROR];

	(void)state;
	assert_int_equal(look_at(false, error), 2); /* the last process is stopped */
	assert_string_equal(error, "");
	assert_int_equal(look_at(true, error), 2);
	assert_string_equal(error, "its worker sent too many messages");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_facts_in_several_messages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
