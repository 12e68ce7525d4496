/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines and NCCL's profiler (net-api.md §4, §8 row 17). capture.c checks the form of every line in all tests. */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define ABI_PROFILER 10 /* the first with a profiler callback */

static void need_own_log(struct test_net *net)
{
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets do not use the logger of init");
}

static void one_line_tells_which_file_was_loaded(struct test_net *net)
{
	void *ctx;

	need_own_log(net);
	check_int(capture_count(CAPTURE_INFO, driver_path(net->driver)), 1);
	check(capture_count(CAPTURE_INFO, driver_name(net->driver)) > 0);
	check_ok(driver_init(net->driver, &ctx, 2, -1, capture_logger, NULL));
	check_ok(driver_finalize(net->driver, ctx));
	check_int(capture_count(CAPTURE_INFO, driver_path(net->driver)), 1);
}

static void every_device_is_named(struct test_net *net)
{
	int count;

	need_own_log(net);
	check_ok(driver_devices(net->driver, &count));
	for (int dev = 0; dev < count; dev++) {
		struct driver_props props;
		check_ok(driver_properties(net->driver, dev, &props));
		check(capture_count(CAPTURE_INFO, props.name) > 0);
	}
}

static void a_connection_is_one_line_at_each_end(struct test_net *net)
{
	struct link link;

	need_own_log(net);
	capture_forget();
	link_open(net, &link);
	check_int(capture_count(CAPTURE_INFO, "127.0.0.1"), 2);
	check_int(capture_count(0, NULL), 2);
	link_close(net, &link);
}

static void messages_are_not_logged(struct test_net *net)
{
	unsigned char from[20000], to[20000];
	struct link link;

	need_own_log(net);
	link_open(net, &link);
	capture_forget();
	for (size_t i = 0; i < 100; i++)
		link_exchange(net, &link, from, i * 200, to, i * 200);
	check_int(capture_count(0, NULL), 0);
	link_close(net, &link);
}

/* --- profiler --- */

#define EVENTS_MAX  4096
#define SOCKET_ID   (2 << 16 | 1) /* network type Socket, version 1 of its descriptor (§4.3) */
#define EVENT_START 0
#define EVENT_STOP  1

/* As the profiler reads it; only during the call. */
struct socket_event {
	uint8_t type, padding[7];
	int fd, op;
	size_t length;
};
static_assert(sizeof(struct socket_event) == 24, "net-api.md §4.3");

static struct {
	struct {
		void *phandle;
		size_t length;
		int op;
		bool stopped;
	} events[EVENTS_MAX];
	size_t count, open;
	bool outstanding[64]; /* by phandle - phandle_of(0) */
	bool refuses;         /* a profiler without interest leaves *event unchanged */
	pthread_t thread;
} profile;

static char phandles[64];

static size_t request_of(void *phandle)
{
	check((char *)phandle >= phandles && (char *)phandle < phandles + sizeof(phandles));
	return (size_t)((char *)phandle - phandles);
}

static void start_event(void **event, void *phandle, int64_t id, void *ext)
{
	struct socket_event seen;
	size_t request = request_of(phandle);

	check_int(id, SOCKET_ID);
	check_that(profile.outstanding[request], "an event of a request that is done");
	check(profile.count < EVENTS_MAX);
	memcpy(&seen, ext, sizeof(seen));
	check_int(seen.type, 1);
	check(seen.fd >= 0);
	check(seen.op == 0 || seen.op == 1);
	profile.events[profile.count].phandle = phandle;
	profile.events[profile.count].length = seen.length;
	profile.events[profile.count].op = seen.op;
	if (!profile.refuses) {
		*event = &profile.events[profile.count];
		profile.open++;
	}
	profile.count++;
}

static void stop_event(void **event)
{
	bool *stopped;

	check(!profile.refuses);
	check(*event);
	size_t index =
		((size_t)((char *)*event - (char *)profile.events)) / sizeof(profile.events[0]);
	check(index < profile.count);
	stopped = &profile.events[index].stopped;
	check_that(!*stopped, "an event was stopped twice");
	check(profile.outstanding[request_of(profile.events[index].phandle)]);
	*stopped = true;
	profile.open--;
}

static int profiler(void **event, int type, void *phandle, int64_t id, void *ext)
{
	check(pthread_equal(profile.thread, pthread_self()));
	check(event);
	check_that(type == EVENT_START || type == EVENT_STOP, "event type %d", type);
	if (type == EVENT_START)
		start_event(event, phandle, id, ext);
	else
		stop_event(event);
	return 0;
}

static void profile_post(struct flow *flow, size_t index)
{
	void *phandle = flow->transfers[index].phandles[0];
	if (phandle)
		profile.outstanding[request_of(phandle)] = true;
}

static void profile_done(struct flow *flow, size_t index)
{
	void *phandle = flow->transfers[index].phandles[0];
	if (phandle)
		profile.outstanding[request_of(phandle)] = false;
}

/* Messages of growing size; both ends with profiler handles, or without. */
static void run_profiled(struct test_net *net, bool with_handles)
{
	enum {
		COUNT = 20
	};
	static unsigned char from[200000], to[COUNT][200000];
	static struct transfer sends[COUNT], recvs[COUNT];
	struct link link;
	void *callback;
	int (*function)(void **, int, void *, int64_t, void *) = profiler;

	memcpy(&callback, &function, sizeof(callback));
	profile.thread = pthread_self();
	net_open_with(net, -1, callback);
	link_open(net, &link);
	for (size_t i = 0; i < COUNT; i++) {
		sends[i] = transfer_of(from, i * 10000, 0, NULL);
		recvs[i] = transfer_of(to[i], i * 10000, 0, NULL);
		sends[i].phandles[0] = with_handles ? &phandles[i] : NULL;
		recvs[i].phandles[0] = with_handles ? &phandles[32 + i] : NULL;
	}
	struct flow flows[] = {
		{ .comm = link.send,
		  .is_send = true,
		  .transfers = sends,
		  .count = COUNT,
		  .prepare = profile_post,
		  .finish = profile_done },
		{ .comm = link.recv,
		  .transfers = recvs,
		  .count = COUNT,
		  .prepare = profile_post,
		  .finish = profile_done },
	};
	flows_run(net, flows, 2);
	check_int(profile.open, 0);
	link_close(net, &link);
	net_close(net);
	check_int(profile.open, 0);
}

static void need_profiler(struct test_net *net)
{
	if (net->abi < ABI_PROFILER)
		check_skip("there is no profiler before v%d", ABI_PROFILER);
	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets are built without profiling");
}

static void every_request_is_profiled(struct test_net *net)
{
	need_profiler(net);
	run_profiled(net, true);
	for (size_t i = 1; i < 20; i++)
		for (int op = 0; op < 2; op++) {
			size_t length = 0;
			for (size_t e = 0; e < profile.count; e++)
				if (profile.events[e].phandle == &phandles[(op ? 32 : 0) + i]) {
					check_int(profile.events[e].op, op);
					check(profile.events[e].stopped);
					length += profile.events[e].length;
				}
			check_that(length == i * 10000, "%s %zu: %zu bytes in events",
				   op ? "receive" : "send", i, length);
		}
}

static void a_profiler_may_return_no_handle(struct test_net *net)
{
	need_profiler(net);
	profile.refuses = true;
	run_profiled(net, true);
	check(profile.count > 0);
}

static void nothing_is_profiled_without_a_handle(struct test_net *net)
{
	need_profiler(net);
	run_profiled(net, false);
	check_int(profile.count, 0);
}

static void nothing_is_profiled_unless_asked(struct test_net *net)
{
	need_profiler(net);
	run_profiled(net, true);
	check_int(profile.count, 0);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "one_line_tells_which_file_was_loaded",
		  one_line_tells_which_file_was_loaded },
		{ .name = "every_device_is_named", every_device_is_named },
		{ .name = "a_connection_is_one_line_at_each_end",
		  a_connection_is_one_line_at_each_end },
		{ .name = "messages_are_not_logged", messages_are_not_logged },
		{ .name = "every_request_is_profiled",
		  every_request_is_profiled,
		  .unopened = true,
		  .settings = { "ANYNET_PROFILE=1" } },
		{ .name = "a_profiler_may_return_no_handle",
		  a_profiler_may_return_no_handle,
		  .unopened = true,
		  .settings = { "ANYNET_PROFILE=1" } },
		{ .name = "nothing_is_profiled_without_a_handle",
		  nothing_is_profiled_without_a_handle,
		  .unopened = true,
		  .settings = { "ANYNET_PROFILE=1" } },
		{ .name = "nothing_is_profiled_unless_asked",
		  nothing_is_profiled_unless_asked,
		  .unopened = true },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
