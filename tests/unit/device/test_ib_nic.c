/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening ports that the probe has offered, on the fake libibverbs: once, by index, and with the changing attributes of
 * a port read again. Usage: test_ib_nic FAKE_LIBRARY
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "fakes/verbs/fake_verbs.h"
#include "transports/base/net.h"
#include "transports/device/ib_events.h"
#include "transports/device/ib_nic.h"
#include "unit/environment.h"

#define HELD_S \
	2 /* after this a background thread that waits for a driver continues, and the test fails */

#define ETH_UP   "; port gid=3,127.0.0.1,v2,lo"
#define ETH_DOWN "; port state=down gid=3,127.0.0.1,v2,lo"

static const char *fake_file;
static void *fake;
static struct anynet_config cfg;
static struct anynet_probe probe;
static char why[ANYNET_REASON_BYTES];

/* The fake's function of that name. */
static void *function(const char *name)
{
	void *address = dlsym(fake, name);

	assert_non_null(address);
	return address;
}

static struct fake_verbs_counts counts(void)
{
	void *address = function("fake_verbs_counts");
	void (*counter)(struct fake_verbs_counts *counts);
	struct fake_verbs_counts now;

	memcpy(&counter, &address, sizeof(counter));
	counter(&now);
	return now;
}

static void order(const char *text)
{
	void *address = function("fake_verbs_script");
	int (*script)(const char *text);

	memcpy(&script, &address, sizeof(script));
	assert_int_equal(script(text), 0);
}

static void offer(const char *script)
{
	environment_clear();
	anynet_config_load(&cfg, NULL);
	snprintf(cfg.ibverbs_lib, sizeof(cfg.ibverbs_lib), "%s", fake_file);
	snprintf(cfg.socket_ifname, sizeof(cfg.socket_ifname), "lo");
	cfg.transport = ANYNET_CHOOSE_IB;
	setenv("FAKE_VERBS", script, 1);
	memset(&probe, 0, sizeof(probe));
	anynet_ib_probe(&cfg, &probe);
	anynet_net.cfg = &cfg;
}

static void test_a_nic_is_opened_once_for_its_device(void **state)
{
	struct ib_nic *first, *second, *other;

	(void)state;
	offer("device a max_qp=1000" ETH_UP ETH_UP "; device b" ETH_DOWN ETH_UP);
	assert_int_equal(probe.device_count, 3);
	assert_int_equal(counts().contexts, 0); /* not before it is needed */
	assert_string_equal(probe.devices[1].name, "a:2");
	first = ib_events_open(&probe.devices[1], why, sizeof(why));
	assert_non_null(first);
	assert_ptr_equal(first->dev, &probe.devices[1]);
	assert_int_equal(first->port, 2);
	assert_string_equal(first->context->device->name, "a");
	assert_non_null(first->pd);
	assert_int_equal(first->limits.max_qp, 1000);
	assert_ptr_equal(ib_events_open(&probe.devices[1], why, sizeof(why)), first);
	assert_string_equal(probe.devices[2].name, "b");
	second = ib_events_open(&probe.devices[2], why, sizeof(why));
	assert_int_equal(second->port, 2);
	assert_ptr_not_equal(second, first);
	assert_int_equal(counts().contexts, 2);
	other = ib_events_open(&probe.devices[0], why, sizeof(why)); /* the first port of that device */
	assert_int_equal(other->port, 1);
	assert_ptr_not_equal(other, first);
	assert_int_equal(counts().lists, 0);
}

static void test_a_device_that_has_failed_is_opened_anew(void **state)
{
	struct ib_nic *failed, *nic;

	(void)state;
	offer("device c" ETH_UP);
	failed = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_non_null(failed);
	atomic_store(&failed->failed, true);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_non_null(nic);
	assert_ptr_not_equal(nic, failed);
	assert_ptr_equal(ib_events_open(&probe.devices[0], why, sizeof(why)), nic);
}

static void test_what_was_not_offered_is_not_opened(void **state)
{
	struct anynet_device unknown = { .name = "eth0", .index = 1 };

	(void)state;
	offer("device d" ETH_UP);
	assert_null(ib_events_open(&unknown, why, sizeof(why)));
	assert_non_null(strstr(why, "eth0 is not a verbs device that is offered"));
}

static void test_failing_to_open_is_told_and_may_be_tried_again(void **state)
{
	struct fake_verbs_counts left;

	(void)state;
	offer("device e" ETH_UP);
	setenv("FAKE_VERBS", "device e open=13" ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot open e: Permission denied");
	setenv("FAKE_VERBS", "device f" ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "e is no longer present");
	setenv("FAKE_VERBS", "list errno=12", 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot list devices: Cannot allocate memory");
	setenv("FAKE_VERBS", "device e query=5" ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot query the device: Input/output error");
	setenv("FAKE_VERBS", "device e" ETH_UP "; fault call alloc_pd errno=12", 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot allocate a protection domain: Cannot allocate memory");
	setenv("FAKE_VERBS", "device e; port query=22", 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot be queried: Invalid argument");
	left = counts();
	assert_int_equal(left.contexts + left.lists + left.pds + left.mrs + left.cqs + left.qps, 0);
	setenv("FAKE_VERBS", "device e" ETH_UP, 1);
	assert_non_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
}

static void test_a_port_that_is_down_can_be_opened(void **state)
{
	struct ib_nic *nic;

	(void)state;
	offer("device g" ETH_UP);
	setenv("FAKE_VERBS", "device g" ETH_DOWN, 1);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_non_null(nic);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_DOWN);
}

static void test_refreshing_tells_what_became_of_the_port(void **state)
{
	struct ib_nic *nic;
	struct gid own;

	(void)state;
	offer("device h" ETH_UP);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_int_equal(ib_nic_refresh(nic), 0);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, NULL, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
	order("set h:1 state=down");
	assert_int_equal(ib_nic_refresh(nic), -ENETDOWN);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_DOWN);
	order("set h:1 state=active gid=3,none");
	assert_int_equal(ib_nic_refresh(nic), -EADDRNOTAVAIL);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, NULL, &own, why, sizeof(why)),
			 -EADDRNOTAVAIL);
	/* after a flap the GID may have another index */
	order("set h:1 gid=9,127.0.0.1,v2,lo");
	assert_int_equal(ib_nic_refresh(nic), 0);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, NULL, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 9);
	order("set h:1 query=5");
	assert_int_equal(ib_nic_refresh(nic), -EIO);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_ACTIVE); /* last known values */
}

static void test_a_gid_is_chosen_for_a_peer(void **state)
{
	struct gid peer = { .index = 6, .type = IBV_GID_TYPE_ROCE_V2 };
	struct ib_nic *nic;
	struct gid own;

	(void)state;
	inet_pton(AF_INET6, "::ffff:127.0.0.9", peer.raw.raw);
	offer("device i" ETH_UP);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_int_equal(ib_nic_choose_gid(nic, &peer, NULL, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
	inet_pton(AF_INET6, "fd00::9", peer.raw.raw);
	assert_int_equal(ib_nic_choose_gid(nic, &peer, NULL, &own, why, sizeof(why)),
			 -EHOSTUNREACH);
	assert_non_null(strstr(why, "does not match the peer's fd00::9"));
}

/* The table also has GIDs of other network namespaces. */
static void test_a_gid_of_this_namespace_is_chosen_for_nobody(void **state)
{
	struct ib_nic *nic;
	struct gid own;

	(void)state;
	offer("device l; port layer=eth gid=1,192.0.2.77,v2,lo gid=3,127.0.0.1,v2,lo");
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_non_null(nic);
	assert_int_equal(nic->state.gid.index, 3); /* of the self-test */
	assert_int_equal(ib_nic_choose_gid(nic, NULL, NULL, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
}

/* If the device's own address is one of the port's, the address that is dialled is of the same network as the peer's port. */
static void test_a_gid_is_chosen_for_an_address(void **state)
{
	struct sockaddr_storage to = { 0 };
	struct sockaddr_in *v4 = (void *)&to;
	struct ib_nic *nic;
	struct gid own;

	(void)state;
	v4->sin_family = AF_INET;
	v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8);
	offer("device j; port layer=eth gid=3,127.9.0.1,v2,lo gid=5,127.0.0.1,v2,lo");
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_int_equal(ib_nic_choose_gid(nic, NULL, NULL, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, &to, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 5);
	/* It is dialled by another interface. */
	order("set j:1 gid=5,127.0.0.3,v2,lo");
	assert_int_equal(ib_nic_refresh(nic), 0);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, &to, &own, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
}

static void *open_first(void *nic)
{
	char my_why[ANYNET_REASON_BYTES];

	*(struct ib_nic **)nic = ib_events_open(&probe.devices[0], my_why, sizeof(my_why));
	return NULL;
}

static void test_threads_get_the_same_nic(void **state)
{
	struct ib_nic *nics[8] = { NULL };
	pthread_t threads[8];

	(void)state;
	offer("device j" ETH_UP);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_first, &nics[i]), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 8; i++)
		assert_ptr_equal(nics[i], nics[0]);
	assert_non_null(nics[0]);
}

/* --- while a driver is slow to open a device --- */

static bool watched,
	went_on; /* once: another thread queries the ports meanwhile; it did not wait */

static void *look_at_ports(void *arg)
{
	ib_events_stale();
	return arg;
}

__typeof__(ib_port_read) __real_ib_port_read, __wrap_ib_port_read;

int __wrap_ib_port_read(const struct anynet_config *config, const struct verbs_port *port,
			const char *sysfs, struct ib_port *state, char *reason, size_t bytes)
{
	struct timespec until;
	pthread_t thread;

	if (watched) {
		watched = false;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += HELD_S;
		assert_int_equal(pthread_create(&thread, NULL, look_at_ports, NULL), 0);
		went_on = !pthread_timedjoin_np(thread, NULL, &until);
	}
	return __real_ib_port_read(config, port, sysfs, state, reason, bytes);
}

static void test_the_background_thread_goes_on_while_a_device_is_opened(void **state)
{
	(void)state;
	offer("device k" ETH_UP ETH_UP);
	assert_non_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	watched = true;
	assert_non_null(ib_events_open(&probe.devices[1], why, sizeof(why)));
	assert_false(watched);
	assert_true(went_on);
}

/* A process for each test: NICs stay open, and the fake changes its devices only when none is open. */
static int run_apart(const struct CMUnitTest *test)
{
	const struct CMUnitTest tests[] = { *test };
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(cmocka_run_group_tests(tests, NULL, NULL));
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_nic_is_opened_once_for_its_device),
		cmocka_unit_test(test_a_device_that_has_failed_is_opened_anew),
		cmocka_unit_test(test_what_was_not_offered_is_not_opened),
		cmocka_unit_test(test_failing_to_open_is_told_and_may_be_tried_again),
		cmocka_unit_test(test_a_port_that_is_down_can_be_opened),
		cmocka_unit_test(test_refreshing_tells_what_became_of_the_port),
		cmocka_unit_test(test_a_gid_is_chosen_for_a_peer),
		cmocka_unit_test(test_a_gid_of_this_namespace_is_chosen_for_nobody),
		cmocka_unit_test(test_a_gid_is_chosen_for_an_address),
		cmocka_unit_test(test_threads_get_the_same_nic),
		cmocka_unit_test(test_the_background_thread_goes_on_while_a_device_is_opened),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FAKE_LIBRARY\n", argv[0]);
		return 1;
	}
	int failed = 0;

	fake_file = argv[1];
	fake = dlopen(fake_file, RTLD_NOW | RTLD_LOCAL); /* kept open for its counters */
	if (!fake) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		failed += run_apart(&tests[i]);
	return failed;
}
