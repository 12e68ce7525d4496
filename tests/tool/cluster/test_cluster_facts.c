/* SPDX-License-Identifier: Apache-2.0 */
/* The facts that a worker derives from the statistics files on its host: figures of a path since the last call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tool/stats/planted_page.h"
#include "tools/cluster/live_facts.h"
#include "tools/shared/member.h"

static char dir[] = "/tmp/facts.XXXXXX", file[100];
static int fd;

static int make_dir(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/" ANYNET_STATS_PREFIX "100.00000001", dir);
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fcntl(fd, F_OFD_SETLK, &lock); /* marks its process as alive */
}

static int remove_dir(void **state)
{
	(void)state;
	close(fd);
	unlink(file);
	return rmdir(dir);
}

/* Two connections on one path: the bytes acknowledged, and the time in which data was in flight. */
static void plant(uint64_t acked, uint64_t busy_us, uint32_t rtt_us)
{
	planted_fill(100, 200, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct anynet_stats_stream *stream = &planted_comm(i)->streams[0];

		strcpy(stream->device, "eth0");
		strcpy(stream->path, "10.0.0.1:4711 -> 10.0.0.2:9000");
		stream->bytes = acked;
		stream->acked = acked;
		stream->busy_us = busy_us;
		stream->rtt_us = rtt_us + i;
	}
	planted_seal();
	assert_int_equal(pwrite(fd, planted_bytes, sizeof(planted_bytes), 0),
			 sizeof(planted_bytes));
}

static json_int_t of_path(const json_t *facts, const char *member)
{
	const json_t *paths = json_object_get(facts, "paths");

	assert_int_equal(json_array_size(paths), 1);
	return member_int(json_array_get(paths, 0), member, 0, INT64_MAX, -1);
}

static void test_a_path_has_the_sums_of_its_connections(void **state)
{
	json_t *facts;

	(void)state;
	plant(1000, 50000, 70);
	json_decref(live_facts(dir));
	plant(15000, 90000, 80);
	facts = live_facts(dir);
	assert_int_equal(of_path(facts, "up"), 2);
	assert_int_equal(of_path(facts, "packets"), 2 * (14000 / 1400));
	assert_int_equal(of_path(facts, "acked"), 2 * 14000);
	assert_int_equal(of_path(facts, "busy_us"), 2 * 40000);
	assert_int_equal(of_path(facts, "rtt_us"), 81);
	json_decref(facts);
	facts = live_facts(dir); /* no change since then */
	assert_int_equal(of_path(facts, "acked"), 0);
	assert_int_equal(of_path(facts, "busy_us"), 0);
	assert_int_equal(of_path(facts, "rtt_us"), 0);
	json_decref(facts);
	plant(500, 100, 80); /* counters that decrease belong to another connection */
	facts = live_facts(dir);
	assert_int_equal(of_path(facts, "acked"), 0);
	json_decref(facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_path_has_the_sums_of_its_connections),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
