/* SPDX-License-Identifier: Apache-2.0 */
/* The facts that a worker derives from the statistics files on its host: figures of a path since the last call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tool/stats/planted_page.h"
#include "tools/cluster/live_facts.h"
#include "tools/cluster/live_parts.h"
#include "tools/pair/wire.h"
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

#define MANY 40 /* connections with a path for each of their streams */

static void plant_many(void)
{
	struct anynet_stats_comm *comm = planted_comm(0);

	planted_fill(100, 200, 1);
	planted_head()->slots = MANY;
	planted_head()->comms = ANYNET_STATS_COMMS + 3;
	planted_seal();
	assert_int_equal(pwrite(fd, planted_bytes, sizeof(planted_bytes), 0),
			 sizeof(planted_bytes));
	for (unsigned i = 0; i < MANY; i++) {
		comm->id = i + 1;
		for (unsigned s = 0; s < ANYNET_STATS_STREAMS; s++) {
			comm->streams[s] = (struct anynet_stats_stream){ .kind = ANYNET_STATS_TCP,
									 .state = ANYNET_STATS_UP,
									 .index = (uint16_t)s };
			snprintf(comm->streams[s].path, sizeof(comm->streams[s].path),
				 "10.0.0.1:4711 -> 10.1.%u.%u:9000", i, s);
		}
		comm->sum = anynet_stats_sum(comm, sizeof(*comm));
		assert_int_equal(pwrite(fd, comm, sizeof(*comm), (off_t)anynet_stats_comm_at(i)),
				 sizeof(*comm));
	}
}

static void test_all_paths_are_reported(void **state)
{
	json_t *facts;

	(void)state;
	plant_many();
	facts = live_facts(dir);
	assert_int_equal(json_array_size(json_object_get(facts, "paths")),
			 MANY * ANYNET_STATS_STREAMS);
	assert_int_equal(member_int(facts, "left_out", 0, INT32_MAX, -1), 3);
	json_decref(facts);
}

static json_int_t of_process(const json_t *facts, const char *member)
{
	return member_int(json_array_get(json_object_get(facts, "processes"), 0), member, 0,
			  INT64_MAX, -1);
}

/* Processes of other containers may have the number of a process here. */
static void test_processor_time_is_that_of_the_owner(void **state)
{
	const pid_t pids[] = { getpid(), getppid() };

	(void)state;
	if (access("/proc/self/schedstat", R_OK))
		skip();
	for (int i = 0; i < 2; i++) {
		json_t *facts;

		planted_fill((uint32_t)pids[i], 200, 1);
		assert_int_equal(pwrite(fd, planted_bytes, sizeof(planted_bytes), 0),
				 sizeof(planted_bytes));
		json_decref(live_facts(dir));
		facts = live_facts(dir);
		assert_int_equal(of_process(facts, "ran_ms") >= 0, !i);
		assert_int_equal(of_process(facts, "waited_ms") >= 0, !i);
		json_decref(facts);
	}
}

#define ROWS 400

/* Rows with the longest texts, which JSON makes twice as long. */
static json_t *long_rows(void)
{
	json_t *list = json_array();
	char name[64];

	memset(name, '\\', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	for (int i = 0; i < ROWS; i++)
		json_array_append_new(
			list,
			json_pack("{s:s, s:I, s:s, s:s%, s:I, s:I, s:I, s:I, s:I, s:I}", "for_host",
				  name, "for_pid", (json_int_t)UINT32_MAX, "address", name,
				  "device", name, (size_t)23, "up", (json_int_t)i, "packets",
				  INT64_MAX, "resent", INT64_MAX, "acked", INT64_MAX, "busy_us",
				  INT64_MAX, "rtt_us", INT64_MAX));
	return list;
}

static void test_facts_in_several_messages(void **state)
{
	json_t *facts = json_pack("{s:o, s:o, s:o, s:i}", "processes", long_rows(), "waits",
				  json_array(), "paths", long_rows(), "left_out", 9);
	json_t *joined = NULL, *part;
	size_t row = 0;
	int parts = 0;
	bool more = true;

	(void)state;
	for (; more; parts++) {
		part = live_part(facts, &row);
		assert_in_range(json_dumpb(part, NULL, 0, JSON_COMPACT), 1, PAIR_FRAME_MAX);
		more = json_is_true(json_object_get(part, "more"));
		joined = live_join(joined, part);
		json_decref(part);
	}
	assert_int_equal(parts, 3);
	assert_int_equal(row, 2 * ROWS);
	assert_true(json_equal(facts, joined));
	assert_null(live_join(joined, NULL));
	json_decref(facts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_path_has_the_sums_of_its_connections),
		cmocka_unit_test(test_all_paths_are_reported),
		cmocka_unit_test(test_processor_time_is_that_of_the_owner),
		cmocka_unit_test(test_facts_in_several_messages),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
