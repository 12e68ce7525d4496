/* SPDX-License-Identifier: Apache-2.0 */
/* The signs of life that are read from TCP_INFO. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "transports/path/tcp/tcp_stream.h"

static struct tcp_info info;

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes);

int __wrap_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	assert_int_equal(fd, 3);
	assert_int_equal(level, IPPROTO_TCP);
	assert_int_equal(option, TCP_INFO);
	assert_int_equal(*bytes, sizeof(info));
	memcpy(value, &info, sizeof(info));
	return 0;
}

static struct stream_signs signs_of(struct tcp_info now)
{
	static struct tcp_stream stream;
	struct stream_signs signs = { 0 };

	info = now;
	stream.base.path.fd = 3;
	assert_true(tcp_signs(&stream.base, &signs));
	return signs;
}

/* While the receiver's window is zero, only window probes are sent, and a live host answers them. */
static void test_retransmissions_and_probes_are_tries(void **state)
{
	(void)state;
	assert_int_equal(signs_of((struct tcp_info){ 0 }).tries, 0);
	assert_int_equal(signs_of((struct tcp_info){ .tcpi_retransmits = 3 }).tries, 3);
	assert_int_equal(signs_of((struct tcp_info){ .tcpi_probes = 4 }).tries, 4);
	assert_false(signs_of((struct tcp_info){ 0 }).waiting);
	assert_true(signs_of((struct tcp_info){ .tcpi_unacked = 1 }).waiting);
	assert_true(signs_of((struct tcp_info){ .tcpi_probes = 1 }).waiting);
}

/* A peer without data to send acknowledges, one without data to acknowledge sends. */
static void test_the_last_sign_of_either_kind_counts(void **state)
{
	(void)state;
	assert_int_equal(signs_of((struct tcp_info){ .tcpi_last_ack_recv = 7,
						     .tcpi_last_data_recv = 90 })
				 .quiet_ms,
			 7);
	assert_int_equal(signs_of((struct tcp_info){ .tcpi_last_ack_recv = 90,
						     .tcpi_last_data_recv = 8 })
				 .quiet_ms,
			 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_retransmissions_and_probes_are_tries),
		cmocka_unit_test(test_the_last_sign_of_either_kind_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
