/* SPDX-License-Identifier: Apache-2.0 */
/* A run with workers that are threads of this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/cluster/coordinator.h"
#include "tools/cluster/order.h"
#include "tools/cluster/worker.h"
#include "tools/pair/wire.h"
#include "tools/shared/member.h"

#define LONG_MS 60000

struct peer {
	int fd;
	enum order_op last; /* it exits after its answer to this */
	pthread_t thread;
};

static json_t *answer(enum order_op op)
{
	if (op == ORDER_FACTS)
		return json_pack("{s:{}, s:{}}", "facts", "launcher");
	return op == ORDER_PAIR ? json_pack("{s:{}}", "result") : json_object();
}

static void *work(void *arg)
{
	struct peer *peer = arg;
	struct order order = { .op = ORDER_STATS };
	json_t *message;

	while (order.op != peer->last && !pair_recv(peer->fd, &message, LONG_MS)) {
		order_parse(message, &order);
		json_decref(message);
		pair_send_new(peer->fd, answer(order.op), LONG_MS);
	}
	close(peer->fd);
	return NULL;
}

/* Runs two workers, which exit after these orders; the second listens on `port`. Returns the document. */
static json_t *run(enum order_op client, enum order_op server, int port)
{
	static const struct coordinator_options options = { .measure = { .streams = 1, .bytes = 1 } };
	struct peer peers[2] = { { .last = client }, { .last = server } };
	struct node nodes[2] = { 0 };
	json_t *doc;

	for (int i = 0; i < 2; i++) {
		int ends[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		nodes[i] = (struct node){ .fd = ends[0], .errors = -1, .port = i ? port : 4747 };
		snprintf(nodes[i].name, sizeof(nodes[i].name), "h%d", i);
		strcpy(nodes[i].address, "10.0.0.1");
		peers[i].fd = ends[1];
		assert_int_equal(pthread_create(&peers[i].thread, NULL, work, &peers[i]), 0);
	}
	doc = coordinate(nodes, 2, &options);
	for (int i = 0; i < 2; i++)
		pthread_join(peers[i].thread, NULL);
	return doc;
}

static const char *error_of(const json_t *doc, size_t host)
{
	return member_text(json_array_get(json_object_get(doc, "hosts"), host), "error");
}

/* A worker that exits after its last measurement is no error. */
static void test_end_after_last_measurement(void **state)
{
	json_t *doc = run(ORDER_PAIR, ORDER_SERVE, 4747);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(doc, "links")), 1);
	assert_string_equal(error_of(doc, 0), "");
	assert_string_equal(error_of(doc, 1), "");
	json_decref(doc);
}

static void test_early_end(void **state)
{
	json_t *doc = run(ORDER_FACTS, ORDER_BYE, 4747);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(doc, "links")), 0);
	assert_string_equal(error_of(doc, 0), "its worker has ended");
	assert_string_equal(error_of(doc, 1), "");
	json_decref(doc);
}

/* A host that joins without a port is not measured, and does not make others exit. */
static void test_no_port(void **state)
{
	json_t *doc = run(ORDER_BYE, ORDER_BYE, 0);

	(void)state;
	assert_int_equal(json_array_size(json_object_get(doc, "links")), 0);
	assert_string_equal(error_of(doc, 0), "");
	assert_string_equal(error_of(doc, 1), "its worker did not send the port on which it serves pairs");
	json_decref(doc);
}

static int port_of_worker(int first, int last)
{
	struct cluster_worker w = { 0 };
	struct worker_options o = cluster_worker(&w);
	char range[32];
	int port;

	snprintf(range, sizeof(range), "%d-%d", first, last);
	setenv("ANYNET_PORT_RANGE", range, 1);
	port = o.begin(o.arg);
	assert_true(port > 0);
	close(w.listener);
	unsetenv("ANYNET_PORT_RANGE");
	return port;
}

/* A worker takes a port of the range, but not the only one: the plugin listens there during the measurement. */
static void test_port_of_worker(void **state)
{
	(void)state;
	assert_in_range(port_of_worker(23000, 23999), 23000, 23999);
	assert_int_not_equal(port_of_worker(23999, 23999), 23999);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end_after_last_measurement),
		cmocka_unit_test(test_early_end),
		cmocka_unit_test(test_no_port),
		cmocka_unit_test(test_port_of_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
