/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening the ports that the probe has offered, on the fake libibverbs: once, by name, and with what
 * changes about a port read again.
 * Usage: test_ib_nic FAKE_LIBRARY
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

#include <arpa/inet.h>
#include <cmocka.h>

#include "transports/device/ib_events.h"
#include "transports/device/ib_nic.h"
#include "unit/environment.h"

#define ETH_UP   "port=2:4:0:99 gid=3/2/::ffff:127.0.0.1/1"
#define ETH_DOWN "port=2:1:0:99 gid=3/2/::ffff:127.0.0.1/1"

static const char *fake_file;
static void *fake;
static struct anynet_config cfg;
static struct anynet_probe probe;
static char why[ANYNET_REASON_BYTES];

static int count_of(const char *function)
{
	int (*counter)(void);
	void *address = dlsym(fake, function);

	assert_non_null(address);
	memcpy(&counter, &address, sizeof(counter));
	return counter();
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
	anynet_ib_transport.probe(&cfg, &probe);
}

/* The fake reads its script when devices are listed; those that are open change, too. */
static void change(const struct ib_nic *nic, const char *script)
{
	int count;

	setenv("FAKE_VERBS", script, 1);
	nic->verbs->free_device_list(nic->verbs->get_device_list(&count));
}

static void test_a_nic_is_opened_once_under_its_name(void **state)
{
	struct ib_nic *first, *second, *other;

	(void)state;
	offer("a " ETH_UP " " ETH_UP "; b " ETH_DOWN " " ETH_UP);
	assert_int_equal(probe.device_count, 3);
	assert_int_equal(count_of("fake_verbs_open_count"), 0); /* not before it is needed */
	assert_string_equal(probe.devices[1].name, "a:2");
	first = ib_events_open(&probe.devices[1], why, sizeof(why));
	assert_non_null(first);
	assert_ptr_equal(first->dev, &probe.devices[1]);
	assert_ptr_equal(first->cfg, &cfg);
	assert_int_equal(first->port, 2);
	assert_string_equal(first->context->device->name, "a");
	assert_non_null(first->pd);
	assert_int_equal(first->limits.max_qp, 1000);
	assert_ptr_equal(ib_events_open(&probe.devices[1], why, sizeof(why)), first);
	assert_string_equal(probe.devices[2].name, "b");
	second = ib_events_open(&probe.devices[2], why, sizeof(why));
	assert_int_equal(second->port, 2);
	assert_ptr_not_equal(second, first);
	assert_int_equal(count_of("fake_verbs_open_count"), 2);
	other = ib_events_open(&probe.devices[0], why, sizeof(why)); /* the first port of that device */
	assert_int_equal(other->port, 1);
	assert_ptr_not_equal(other, first);
	assert_int_equal(count_of("fake_verbs_list_count"), 0);
}

static void test_a_device_that_has_failed_is_opened_anew(void **state)
{
	struct ib_nic *failed, *nic;

	(void)state;
	offer("c " ETH_UP);
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
	struct anynet_device stranger = { .name = "eth0" };

	(void)state;
	offer("d " ETH_UP);
	assert_null(ib_events_open(&stranger, why, sizeof(why)));
	assert_non_null(strstr(why, "eth0 is not a verbs device that is offered"));
}

static void test_failing_to_open_is_told_and_may_be_tried_again(void **state)
{
	int opened = count_of("fake_verbs_open_count"),
	    objects = count_of("fake_verbs_object_count");

	(void)state;
	offer("e " ETH_UP);
	setenv("FAKE_VERBS", "e open=13 " ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot open e: Permission denied");
	setenv("FAKE_VERBS", "f " ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "e is no longer present");
	setenv("FAKE_VERBS", "errno 12", 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot list devices: Cannot allocate memory");
	setenv("FAKE_VERBS", "e query=5 " ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot query the device: Input/output error");
	setenv("FAKE_VERBS", "e pd=12 " ETH_UP, 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot allocate a protection domain: Cannot allocate memory");
	setenv("FAKE_VERBS", "e port=errno:22", 1);
	assert_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
	assert_string_equal(why, "cannot be queried: Invalid argument");
	assert_int_equal(count_of("fake_verbs_open_count"), opened);
	assert_int_equal(count_of("fake_verbs_object_count"), objects);
	setenv("FAKE_VERBS", "e " ETH_UP, 1);
	assert_non_null(ib_events_open(&probe.devices[0], why, sizeof(why)));
}

static void test_a_port_that_is_down_can_be_opened(void **state)
{
	struct ib_nic *nic;

	(void)state;
	offer("g " ETH_UP);
	setenv("FAKE_VERBS", "g " ETH_DOWN, 1);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_non_null(nic);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_DOWN);
}

static void test_refreshing_tells_what_became_of_the_port(void **state)
{
	struct ib_nic *nic;
	struct gid own;
	int peer;

	(void)state;
	offer("h " ETH_UP);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_int_equal(ib_nic_refresh(nic), 0);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, 0, &own, &peer, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
	change(nic, "h " ETH_DOWN);
	assert_int_equal(ib_nic_refresh(nic), -ENETDOWN);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_DOWN);
	change(nic, "h port=2:4:0:99");
	assert_int_equal(ib_nic_refresh(nic), -EADDRNOTAVAIL);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, 0, &own, &peer, why, sizeof(why)),
			 -EADDRNOTAVAIL);
	/* after a flap the GID may have another place */
	change(nic, "h port=2:4:0:99 gid=9/2/::ffff:127.0.0.1/1");
	assert_int_equal(ib_nic_refresh(nic), 0);
	assert_int_equal(ib_nic_choose_gid(nic, NULL, 0, &own, &peer, why, sizeof(why)), 0);
	assert_int_equal(own.index, 9);
	assert_int_equal(peer, -1);
	change(nic, "h port=errno:5");
	assert_int_equal(ib_nic_refresh(nic), -EIO);
	assert_int_equal(ib_nic_attr(nic).state, IBV_PORT_ACTIVE); /* as last known */
}

static void test_a_gid_is_chosen_for_a_peer(void **state)
{
	struct gid peers[2] = { { .index = 5, .type = IBV_GID_TYPE_ROCE_V2 },
				{ .index = 6, .type = IBV_GID_TYPE_ROCE_V2 } };
	struct ib_nic *nic;
	struct gid own;
	int peer;

	(void)state;
	inet_pton(AF_INET6, "fd00::9", peers[0].raw.raw);
	inet_pton(AF_INET6, "::ffff:127.0.0.9", peers[1].raw.raw);
	offer("i " ETH_UP);
	nic = ib_events_open(&probe.devices[0], why, sizeof(why));
	assert_int_equal(ib_nic_choose_gid(nic, peers, 2, &own, &peer, why, sizeof(why)), 0);
	assert_int_equal(own.index, 3);
	assert_int_equal(peer, 1);
	assert_int_equal(ib_nic_choose_gid(nic, peers, 1, &own, &peer, why, sizeof(why)),
			 -EHOSTUNREACH);
	assert_non_null(strstr(why, "does not match the peer's fd00::9"));
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
	offer("j " ETH_UP);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_first, &nics[i]), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 8; i++)
		assert_ptr_equal(nics[i], nics[0]);
	assert_non_null(nics[0]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_nic_is_opened_once_under_its_name),
		cmocka_unit_test(test_a_device_that_has_failed_is_opened_anew),
		cmocka_unit_test(test_what_was_not_offered_is_not_opened),
		cmocka_unit_test(test_failing_to_open_is_told_and_may_be_tried_again),
		cmocka_unit_test(test_a_port_that_is_down_can_be_opened),
		cmocka_unit_test(test_refreshing_tells_what_became_of_the_port),
		cmocka_unit_test(test_a_gid_is_chosen_for_a_peer),
		cmocka_unit_test(test_threads_get_the_same_nic),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s FAKE_LIBRARY\n", argv[0]);
		return 1;
	}
	fake_file = argv[1];
	fake = dlopen(fake_file, RTLD_NOW | RTLD_LOCAL); /* held for its counters */
	if (!fake) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
