/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device: ports, queue pairs and devices that fail. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/device/carrier.h"
#include "transports/device/ib_events.h"
#include "transports/service/background.h"
#include "unit/ib_ends.h"

#define OTHER_PORT 2

static struct ib_nic *nic;
static struct verbs stub, verbs; /* those of the stub, observed by the test */
static unsigned acknowledged;

static void ack_async_event(struct ibv_async_event *event)
{
	acknowledged++;
	stub.ack_async_event(event);
}

static uint64_t late_ms; /* the clock is that much ahead */

uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);

uint64_t __wrap_os_now_ms(void)
{
	return __real_os_now_ms() + late_ms;
}

static int setup(void **state)
{
	pair_setup(state);
	nic = ib_ends_start();
	if (!stub.ack_async_event)
		stub = *nic->verbs;
	verbs = stub;
	verbs.ack_async_event = ack_async_event;
	nic->verbs = &verbs;
	acknowledged = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ib_chores_finish();
	capture_check();
	assert_int_equal(stub_objects(), 0);
	return 0;
}

/* In a process of its own. */
static void in_a_child(bool (*works)(void))
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(!works());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static unsigned refused; /* calls that find too many open files */

int epoll_create1(int flags)
{
	errno = EMFILE;
	return refused && refused-- ? -1 : (int)syscall(SYS_epoll_create1, flags);
}

static bool breaks; /* once: the port goes down as soon as its events are read */

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	int ret = (int)syscall(SYS_epoll_ctl, epfd, op, fd, event);

	if (breaks && !ret && op == EPOLL_CTL_ADD) {
		breaks = false;
		stub_port_event(1, IBV_EVENT_PORT_ERR);
		ib_events_read();
	}
	return ret;
}

static bool failure_is_named(void)
{
	char line[CAPTURE_LINE_BYTES];
	void *state = NULL;

	setenv("NCCL_DEBUG", "INFO", 1);
	pair_setup(&state);
	stub_offer();
	refused = 2;
	ib_events_fd(); /* by the background thread, before the nic is opened */
	errno = EPERM;
	ib_ends_start();
	return capture_find(CAPTURE_INFO, "without asynchronous events", line) &&
	       strstr(line, "Too many open files");
}

/* The background thread does not start without them. Here it has nothing to do afterwards, and reads none. */
static bool events_come_later(void)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the background thread");

	capture_allow_warn();
	refused = 1;
	background_rouse();
	if (background_runs())
		return false;
	for (; !background_runs(); deadline_turn(&deadline))
		background_rouse();
	stub_port_event(1, IBV_EVENT_PORT_ERR);
	return ib_events_read() && carrier_port_is_down(&local_dev);
}

static bool starts_without_events(void)
{
	return failure_is_named() && events_come_later();
}

/* Descriptors are short for a while. In a process of its own, which has no epoll set yet. */
static void test_why_there_are_no_events_yet_is_logged(void **state)
{
	(void)state;
	in_a_child(starts_without_events);
}

static bool stays_down(void)
{
	void *state = NULL;

	pair_setup(&state);
	breaks = true;
	ib_ends_start();
	return !breaks && carrier_port_is_down(&local_dev);
}

/* In a process of its own, because a port is opened once. */
static void test_a_port_may_go_down_while_it_is_opened(void **state)
{
	(void)state;
	in_a_child(stays_down);
}

static void test_a_port_is_down_until_it_is_up(void **state)
{
	(void)state;
	stub_port_event(1, IBV_EVENT_PORT_ERR);
	assert_true(ib_events_read());
	assert_true(carrier_port_is_down(&local_dev));
	assert_false(ib_events_stale());
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	assert_false(ib_events_read()); /* the port is queried after a delay */
	assert_true(ib_events_stale());
	assert_true(ib_events_settle());
	assert_false(carrier_port_is_down(&local_dev));
	assert_false(ib_events_stale());
}

static enum ibv_event_type comes; /* after the port was queried, and before the result counts */

static int query_port_that_fails(struct ibv_context *context, uint8_t port,
				 struct ibv_port_attr *attr)
{
	int ret = stub.query_port(context, port, attr);

	stub_port_event(1, comes);
	ib_events_read();
	return ret;
}

static void is_read_at_the_next_event(void)
{
	assert_true(carrier_port_is_down(&local_dev));
	verbs.query_port = stub.query_port;
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	ib_events_read();
	assert_true(ib_events_settle());
	assert_false(carrier_port_is_down(&local_dev));
}

static void test_an_event_is_newer_than_what_was_read_before_it(void **state)
{
	(void)state;
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	ib_events_read();
	comes = IBV_EVENT_PORT_ERR;
	verbs.query_port = query_port_that_fails;
	assert_true(ib_events_settle());
	is_read_at_the_next_event();
}

static bool stays_failed(void)
{
	void *state = NULL;

	setup(&state);
	comes = IBV_EVENT_DEVICE_FATAL;
	verbs.query_port = query_port_that_fails;
	ib_events_reread(nic);
	ib_events_settle();
	return nic->failed && carrier_port_is_down(&local_dev);
}

/* In a process of its own, because the device does not come back. */
static void test_a_device_may_fail_while_its_port_is_read(void **state)
{
	(void)state;
	in_a_child(stays_failed);
}

static int query_port_refused(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	(void)context;
	(void)port;
	(void)attr;
	return EIO;
}

static ssize_t query_gid_table_refused(struct ibv_context *context, struct ibv_gid_entry *entries,
				       size_t count, uint32_t flags, size_t entry_bytes)
{
	(void)context;
	(void)entries;
	(void)count;
	(void)flags;
	(void)entry_bytes;
	return -EIO;
}

static int query_gid_refused(struct ibv_context *context, uint8_t port, int index,
			     union ibv_gid *gid)
{
	(void)context;
	(void)port;
	(void)index;
	(void)gid;
	errno = EIO;
	return -1;
}

/* The port is up again, and its attributes or its GIDs cannot be read. */
static void cannot_be_read(bool gids)
{
	if (gids) {
		verbs.query_gid_table = query_gid_table_refused;
		verbs.query_gid = query_gid_refused;
	} else {
		verbs.query_port = query_port_refused;
	}
	stub_port_event(1, IBV_EVENT_PORT_ERR);
	assert_true(ib_events_read());
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	ib_events_read();
	assert_false(ib_events_settle());
	assert_true(carrier_port_is_down(&local_dev));
}

static void test_a_port_that_cannot_be_read_stays_what_it_was(void **state)
{
	(void)state;
	cannot_be_read(false);
	is_read_at_the_next_event();
}

/* No other event may come. */
static void test_a_port_that_cannot_be_read_is_read_again_later(void **state)
{
	(void)state;
	for (int gids = 0; gids < 2; gids++) {
		cannot_be_read(gids);
		assert_false(ib_events_stale()); /* not at once */
		verbs = stub;
		late_ms += 1000;
		assert_true(ib_events_stale());
		assert_true(ib_events_settle());
		assert_false(carrier_port_is_down(&local_dev));
		assert_false(ib_events_stale());
	}
}

static int query_port_too_early(struct ibv_context *context, uint8_t port,
				struct ibv_port_attr *attr)
{
	query_port_that_fails(context, port, attr);
	return EIO;
}

static void test_an_event_while_a_port_cannot_be_read_is_not_lost(void **state)
{
	(void)state;
	comes = IBV_EVENT_PORT_ACTIVE;
	verbs.query_port = query_port_too_early;
	ib_events_reread(nic);
	assert_false(ib_events_settle());
	assert_true(ib_events_stale());
	verbs.query_port = stub.query_port;
	assert_true(ib_events_settle());
	assert_false(ib_events_stale());
}

static bool says_down;

static int query_port_that_is_down(struct ibv_context *context, uint8_t port,
				   struct ibv_port_attr *attr)
{
	int ret = stub.query_port(context, port, attr);

	if (says_down)
		attr->state = IBV_PORT_DOWN;
	return ret;
}

/* The event tells that the interface is up, and its carrier comes later, without one. */
static void test_a_port_that_is_still_down_is_read_again_later(void **state)
{
	(void)state;
	verbs.query_port = query_port_that_is_down;
	says_down = true;
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	ib_events_read();
	ib_events_settle();
	for (int i = 0; i < 2; i++) {
		assert_true(carrier_port_is_down(&local_dev));
		assert_false(ib_events_stale());
		late_ms += 1000;
		assert_true(ib_events_stale());
		says_down = !i;
		assert_int_equal(ib_events_settle(), i);
	}
	assert_false(carrier_port_is_down(&local_dev));
	assert_false(ib_events_stale());
}

/* Without an event comms have no reason to hurry: they may be the cause. */
static void test_a_port_that_may_have_changed_is_read_again(void **state)
{
	(void)state;
	ib_events_reread(nic);
	assert_true(ib_events_stale());
	assert_false(ib_events_settle());
	assert_false(ib_events_stale());
}

static void test_one_port_is_not_the_other(void **state)
{
	(void)state;
	stub_port_event(OTHER_PORT, IBV_EVENT_PORT_ERR);
	assert_false(ib_events_read());
	assert_false(carrier_port_is_down(&local_dev));
	stub_port_event(OTHER_PORT, IBV_EVENT_PORT_ACTIVE);
	assert_false(ib_events_read());
	assert_false(ib_events_stale());
}

static void test_a_queue_pair_fails_alone(void **state)
{
	struct ib_qp *fails = ib_connector(true), *works = ib_connector(true);

	(void)state;
	stub_event(fails->ibv, IBV_EVENT_QP_FATAL);
	assert_true(ib_events_read());
	assert_int_equal(ib_qp_poll(fails, NULL), -EIO);
	assert_int_equal(ib_qp_poll(works, NULL), 0);
	ib_qp_free(fails);
	ib_qp_free(works);
}

/* A destroy call waits for events about the object. */
static void test_every_event_is_acknowledged(void **state)
{
	struct ib_qp *qp = ib_connector(true);

	(void)state;
	stub_event(qp->ibv, IBV_EVENT_QP_ACCESS_ERR);
	stub_event(qp->ibv, IBV_EVENT_COMM_EST);
	stub_port_event(1, IBV_EVENT_PORT_ERR);
	stub_port_event(1, IBV_EVENT_PORT_ACTIVE);
	assert_true(ib_events_read());
	assert_int_equal(acknowledged, 4);
	ib_qp_free(qp);
	ib_events_settle();
}

/* Last, because the device does not come back. */
static void test_with_a_device_all_of_its_queue_pairs_fail(void **state)
{
	struct ib_qp *qp = ib_connector(true);

	(void)state;
	stub_event(NULL, IBV_EVENT_DEVICE_FATAL);
	assert_true(ib_events_read());
	assert_true(carrier_port_is_down(&local_dev));
	assert_int_equal(ib_qp_poll(qp, NULL), -EIO);
	ib_qp_free(qp);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_why_there_are_no_events_yet_is_logged),    /* the first one */
		cmocka_unit_test(test_a_port_may_go_down_while_it_is_opened),    /* likewise */
		cmocka_unit_test(test_a_device_may_fail_while_its_port_is_read), /* likewise */
		T(test_a_port_is_down_until_it_is_up),
		T(test_an_event_is_newer_than_what_was_read_before_it),
		T(test_a_port_that_cannot_be_read_stays_what_it_was),
		T(test_a_port_that_cannot_be_read_is_read_again_later),
		T(test_an_event_while_a_port_cannot_be_read_is_not_lost),
		T(test_a_port_that_is_still_down_is_read_again_later),
		T(test_a_port_that_may_have_changed_is_read_again),
		T(test_one_port_is_not_the_other),
		T(test_a_queue_pair_fails_alone),
		T(test_every_event_is_acknowledged),
		T(test_with_a_device_all_of_its_queue_pairs_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
