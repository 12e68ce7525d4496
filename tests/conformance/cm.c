/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs connected by the RDMA connection manager (ANYNET_IB_CM=1): its use, the requests that it accepts, and its
 * failures. With the kernel's librdmacm, or the fake's (ANYNET_RDMACM_LIB), which can fail on order.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/capture.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/link.h>

#define LINKS      16
#define RESOLVE_MS 2000
#define NONCE      16 /* bytes */

#define CONNECTED "connected by the RDMA CM to"
#define WITHOUT   "is connected without the RDMA CM"
#define LISTENS   "waits for the RDMA CM at "

static void *symbol_of(const char *file, int mode, const char *name)
{
	void *library = dlopen(file, mode | RTLD_NOW);
	void *symbol;

	check_that(library, "%s: %s", file, dlerror());
	symbol = dlsym(library, name);
	check_that(symbol, "%s", name);
	dlclose(library); /* held open by the plugin */
	return symbol;
}

static bool has_fake(void)
{
	return getenv("ANYNET_RDMACM_LIB") != NULL;
}

static void queue_pairs_are_connected_by_the_manager(struct test_net *net)
{
	struct link link;

	link_open(net, &link);
	check_int(capture_count(CAPTURE_INFO, CONNECTED), 1);
	check_int(capture_count(CAPTURE_INFO, WITHOUT), 0);
	link_check(net, &link, 8);
	link_check(net, &link, 300000);
	link_close(net, &link);
}

static void many_at_once(struct test_net *net)
{
	static struct link links[LINKS];
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "links by the manager");

	for (size_t i = 0; i < LINKS; i++)
		link_listen(net, &links[i]);
	for (size_t left = LINKS; left;) {
		left = 0;
		for (size_t i = 0; i < LINKS; i++) {
			left += !link_connect_step(net, &links[i]);
			left += !link_accept_step(net, &links[i]);
		}
		if (left)
			deadline_turn(&deadline);
	}
	check_int(capture_count(CAPTURE_INFO, CONNECTED), LINKS);
	for (size_t i = 0; i < LINKS; i++)
		link_check(net, &links[i], 100000);
	for (size_t i = 0; i < LINKS; i++)
		link_close(net, &links[i]);
}

/* --- unauthenticated requests --- */

static struct {
	struct rdma_event_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct rdma_event_channel *channel);
	int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
			 enum rdma_port_space space);
	int (*destroy_id)(struct rdma_cm_id *id);
	int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to,
			    int timeout_ms);
	int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
	int (*ack_cm_event)(struct rdma_cm_event *event);
} rdma;

static void find_functions(void)
{
	static const char *const names[] = {
		"rdma_create_event_channel",
		"rdma_destroy_event_channel",
		"rdma_create_id",
		"rdma_destroy_id",
		"rdma_resolve_addr",
		"rdma_resolve_route",
		"rdma_connect",
		"rdma_get_cm_event",
		"rdma_ack_cm_event",
	};
	const char *file = has_fake() ? getenv("ANYNET_RDMACM_LIB") : "librdmacm.so.1";

	static_assert(sizeof(rdma) == sizeof(names) / sizeof(*names) * sizeof(void *), "in order");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		void *symbol = symbol_of(file, 0, names[i]);

		memcpy((char *)&rdma + i * sizeof(symbol), &symbol, sizeof(symbol));
	}
}

static enum rdma_cm_event_type next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	check_int(rdma.get_cm_event(channel, &event), 0);
	type = event->event;
	check_int(rdma.ack_cm_event(event), 0);
	return type;
}

/* The address on which the receive comm waits for requests, or waited. */
static struct sockaddr_in door_of(void)
{
	struct sockaddr_in door = { .sin_family = AF_INET };
	char line[CAPTURE_LINE_BYTES], ip[INET_ADDRSTRLEN];
	unsigned port;

	check(capture_find(CAPTURE_INFO, LISTENS, line));
	check_int(sscanf(strstr(line, LISTENS) + strlen(LISTENS), "%15[0-9.]:%u", ip, &port), 2);
	check_int(inet_pton(AF_INET, ip, &door.sin_addr), 1);
	door.sin_port = htons((uint16_t)port);
	return door;
}

/* Returns the answer to a request with that many bytes of a nonce which was never issued. */
static enum rdma_cm_event_type knock(struct sockaddr_in from, struct sockaddr_in door,
				     uint8_t bytes)
{
	struct rdma_event_channel *channel = rdma.create_event_channel();
	struct rdma_conn_param param = { .private_data = "sixteen letters..",
					 .private_data_len = bytes,
					 .qp_num = 12345 };
	enum rdma_cm_event_type answer;
	struct rdma_cm_id *id;

	from.sin_port = 0;
	check(channel != NULL);
	check_int(rdma.create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	check_int(rdma.resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&door,
				    RESOLVE_MS),
		  0);
	check_int(next_event(channel), RDMA_CM_EVENT_ADDR_RESOLVED);
	check_int(rdma.resolve_route(id, RESOLVE_MS), 0);
	check_int(next_event(channel), RDMA_CM_EVENT_ROUTE_RESOLVED);
	check_int(rdma.connect(id, &param), 0);
	answer = next_event(channel);
	check_int(rdma.destroy_id(id), 0);
	rdma.destroy_event_channel(channel);
	return answer;
}

/* While the owner of the comm does not call it. */
static void unauthenticated_requests_are_rejected(struct test_net *net)
{
	struct sockaddr_in door;
	struct link link;

	link_open(net, &link);
	find_functions();
	door = door_of();
	check_int(knock(door, door, NONCE), RDMA_CM_EVENT_REJECTED);
	check_int(knock(door, door, 1), RDMA_CM_EVENT_REJECTED);
	link_check(net, &link, 300000);
	link_close(net, &link);
}

/* Polls until both ends are finished, while requests are lost. */
static void step_in_vain(struct test_net *net, struct link *link)
{
	link_listen(net, link);
	for (int more = 100; more;
	     more -= capture_count(CAPTURE_INFO, LISTENS) && fake_counts().cm_ids > 1) {
		link_connect_step(net, link);
		link_accept_step(net, link);
	}
}

/* Only the peer is waited for; it is late. */
static void an_unauthenticated_request_may_come_first(struct test_net *net)
{
	struct sockaddr_in from = { .sin_family = AF_INET };
	struct link link;

	if (!has_fake())
		check_skip("only the fake loses what it is told to");
	link_open(net, &link);
	link_close(net, &link);
	find_functions();
	capture_forget();
	fake_order("vanish fake0:1 any");
	step_in_vain(net, &link);
	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1); /* fake1's path */
	check_int(knock(from, door_of(), NONCE), RDMA_CM_EVENT_REJECTED);
	fake_order("no-faults");
	link_finish(net, &link);
	link_check(net, &link, 8);
	check_int(capture_count(CAPTURE_INFO, "the RDMA CM cannot connect a queue pair"), 0);
	check_int(capture_count(CAPTURE_INFO, WITHOUT), 0);
	link_close(net, &link);
}

/* --- failures, by the fake --- */

/* A closed comm lets another thread destroy its queue pair. */
static void await_nothing_left(void)
{
	struct deadline deadline =
		deadline_in(TEST_PATIENCE_MS, "what was closed to be given back");

	while (fake_counts().cm_ids || fake_counts().qps)
		deadline_turn(&deadline);
}

/* If the fault breaks the connection, the queue pair is connected without the manager. */
static void check_without(struct test_net *net, const char *fault)
{
	struct fake_verbs_counts before;
	struct link link;

	await_nothing_left(); /* its calls would be counted, too */
	capture_forget();
	fake_order(fault);
	link_open(net, &link);
	before = fake_counts();
	link_check(net, &link, 8);
	check_that(fake_counts().sends > before.sends, "%s: not by queue pairs", fault);
	check_that(capture_count(CAPTURE_INFO, WITHOUT), "%s: nobody says so", fault);
	check_that(!capture_count(CAPTURE_INFO, CONNECTED), "%s: it has not failed", fault);
	link_close(net, &link);
	fake_order("no-faults");
}

static void each_step_of_the_manager_may_fail(struct test_net *net)
{
	/* Calls of the acceptor and of the connector; of modify_qp those after INIT. */
	static const char *const steps[] = {
		"rdma_create_id nth=1",
		"rdma_create_id nth=2",
		"rdma_bind_addr",
		"rdma_listen",
		"rdma_resolve_addr",
		"rdma_resolve_route",
		"rdma_connect",
		"rdma_accept",
		"rdma_init_qp_attr nth=1",
		"rdma_init_qp_attr nth=3",
		"rdma_init_qp_attr nth=5",
		"rdma_establish",
		"modify_qp nth=3",
		"modify_qp nth=6",
	};
	char fault[80];
	struct link link;

	if (!has_fake())
		check_skip("only the fake fails when told to");
	link_open(net, &link); /* loads the library */
	link_close(net, &link);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		snprintf(fault, sizeof(fault), "fault call %s errno=5", steps[i]);
		check_without(net, fault);
	}
}

static void a_lost_request_is_repeated(struct test_net *net)
{
	struct fake_verbs_counts before;
	struct link link;

	if (!has_fake())
		check_skip("only the fake loses what it is told to");
	link_open(net, &link);
	link_close(net, &link);
	capture_forget();
	before = fake_counts();
	fake_order("vanish fake0:1 any");
	step_in_vain(net, &link);
	fake_order("no-faults");
	link_finish(net, &link);
	link_check(net, &link, 8);
	check_int(capture_count(CAPTURE_INFO, WITHOUT), 0);
	check_int(fake_counts().cm_connections - before.cm_connections, 1);
	link_close(net, &link);
}

static void nothing_is_left_behind(struct test_net *net)
{
	struct link link;

	if (!has_fake())
		check_skip("only the fake counts");
	link_open(net, &link);
	check_that(fake_counts().cm_ids == 3, "%d ids: one that listens, and one at each end",
		   (int)fake_counts().cm_ids);
	link_check(net, &link, 100000);
	link_close(net, &link);
	await_nothing_left();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{ .name = "queue_pairs_are_connected_by_the_manager",
		  .run = queue_pairs_are_connected_by_the_manager },
		{ .name = "many_at_once", .run = many_at_once },
		{ .name = "unauthenticated_requests_are_rejected", .run = unauthenticated_requests_are_rejected },
		{ .name = "an_unauthenticated_request_may_come_first", .run = an_unauthenticated_request_may_come_first },
		{ .name = "each_step_of_the_manager_may_fail", .run = each_step_of_the_manager_may_fail },
		{ .name = "a_lost_request_is_repeated", .run = a_lost_request_is_repeated },
		{ .name = "nothing_is_left_behind", .run = nothing_is_left_behind },
	};

	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
