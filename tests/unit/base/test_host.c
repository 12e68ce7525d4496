/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of hosts: names of any length, a kernel that refuses calls. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/base/net.h"
#include "unit/environment.h"
#include "unit/local_net.h"

#define NAME_MAX_BYTES 64 /* Linux's limit; 63 of them are used */

static bool refuses;

ssize_t __real_getrandom(void *data, size_t bytes, unsigned flags);
ssize_t __wrap_getrandom(void *data, size_t bytes, unsigned flags);

/* Replaces the C library's function by the linker: the call fails as under a seccomp filter. */
ssize_t __wrap_getrandom(void *data, size_t bytes, unsigned flags)
{
	if (!refuses)
		return __real_getrandom(data, bytes, flags);
	errno = EPERM;
	return -1;
}

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	refuses = false;
	anynet_net_trim(&local_dev);
	return 0;
}

static void test_names_of_every_length_are_told(void **state)
{
	char name[NAME_MAX_BYTES];

	(void)state;
	if (unshare(CLONE_NEWUTS)) {
		printf("SKIP no namespace for a host name: %s\n", strerror(errno));
		skip();
	}
	memset(name, 'n', sizeof(name));
	for (size_t bytes = 1; bytes <= sizeof(name); bytes++) {
		assert_int_equal(sethostname(name, bytes), 0);
		local_net_start();
		assert_int_equal(strlen(anynet_net.host), bytes < sizeof(name) ? bytes : bytes - 1);
		assert_int_equal(strspn(anynet_net.host, "n"), strlen(anynet_net.host));
	}
}

/* Without a token there is no handle: a token of zeros would be known to all. */
static void test_without_random_numbers_nothing_is_connected(void **state)
{
	uint8_t handle[ANYNET_HANDLE_BYTES], told[ANYNET_HANDLE_BYTES];
	struct anynet_connect_options options = { .traffic_class = -1, .owner = &local_dev };
	struct anynet_listener *listener;
	struct anynet_comm *comm;

	(void)state;
	assert_int_equal(anynet_listen(&local_dev, &local_dev, handle, &listener), 0);
	memcpy(told, handle, sizeof(told));
	refuses = true;
	assert_int_equal(anynet_connect(&local_dev, &options, told, &comm), -EPERM);
	assert_null(comm);
	anynet_close_listener(listener);
	assert_int_equal(anynet_listen(&local_dev, &local_dev, handle, &listener), -EPERM);
	assert_null(listener);
	assert_int_equal(capture_count(CAPTURE_WARN, "the kernel provides no random numbers"), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names_of_every_length_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_random_numbers_nothing_is_connected, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
