/* SPDX-License-Identifier: Apache-2.0 */
/* Reading statistics files that others have written, including torn and hostile ones. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "planted_page.h"

static void write_page(int dir, const char *name, uid_t uid)
{
	int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, planted_bytes, sizeof(planted_bytes)), sizeof(planted_bytes));
	assert_int_equal(fchown(fd, uid, (gid_t)-1), 0);
	assert_int_equal(close(fd), 0);
}

static void test_users_share_the_limit(void **state)
{
	enum {
		MANY = 1100,
		OTHER = 4242
	};
	char where[] = "/tmp/anynet-pages-XXXXXX", name[64];
	size_t own = 0;
	struct page_list list;
	int dir;

	(void)state;
	if (geteuid())
		skip(); /* only root can read the files of other users */
	assert_non_null(mkdtemp(where));
	dir = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < MANY + 10; i++) {
		planted_fill(i < MANY ? 1 : 100000 + i, 2, 1);
		snprintf(name, sizeof(name), "%s%u", ANYNET_STATS_PREFIX, i);
		write_page(dir, name, i < MANY ? OTHER : 0);
	}
	assert_int_equal(page_read_all(&list, where, &(struct page_wish){ .ended = true }), 0);
	for (size_t i = 0; i < list.count; i++)
		own += !list.pages[i].uid;
	assert_int_equal(own, 10);
	assert_int_equal(list.count, 1024);
	assert_int_equal(list.left_out, MANY + 10 - 1024);
	page_free_all(&list);
	for (unsigned i = 0; i < MANY + 10; i++) {
		snprintf(name, sizeof(name), "%s%u", ANYNET_STATS_PREFIX, i);
		unlinkat(dir, name, 0);
	}
	close(dir);
	rmdir(where);
}

static void test_page_share(void **state)
{
	static const size_t wants[] = { 5, 100, 1000, 0 };

	(void)state;
	assert_int_equal(page_share(wants, 4, 205), 100);
	assert_int_equal(page_share(wants, 4, 25), 10);
	assert_int_equal(page_share(wants, 4, 0), 0);
	assert_int_equal(page_share(wants, 4, 2000), 2000);
	assert_int_equal(page_share(wants, 0, 7), 7);
}

static void test_invalid_pages_are_rejected(void **state)
{
	struct page page;

	(void)state;
	planted_fill(1, 2, 1);
	for (size_t count = 0; count < sizeof(*planted_head()); count++)
		assert_int_equal(page_parse(&page, planted_bytes, count), -EINVAL);
#define REFUSED(field, value)  \
	planted_fill(1, 2, 1);         \
	planted_head()->field = value; \
	planted_seal();                \
	assert_int_equal(page_parse(&page, planted_bytes, sizeof(planted_bytes)), -EINVAL)
	REFUSED(magic, 1);
	REFUSED(version, ANYNET_STATS_VERSION + 1);
	REFUSED(comm_bytes, 8);
	REFUSED(slots, ANYNET_STATS_COMMS + 1);
	planted_fill(1, 2, 1);
	planted_head()->pid++; /* torn */
	assert_int_equal(page_parse(&page, planted_bytes, sizeof(planted_bytes)), -EINVAL);
	memset(planted_bytes, 0, sizeof(planted_bytes));
	assert_int_equal(page_parse(&page, planted_bytes, sizeof(planted_bytes)), -EINVAL);
}

static void test_torn_and_invalid_records_are_skipped(void **state)
{
	struct page page;

	(void)state;
	planted_fill(1, 2, 4);
	planted_comm(0)->bytes++;
	planted_comm(2)->streams[15].path[111]++;
	page = planted_parse();
	assert_int_equal(page.count, 2);
	assert_int_equal(page.comms[0].id, 2);
	assert_int_equal(page.comms[1].id, 4);
	page_free(&page);
	planted_fill(1, 2, 4);
	planted_comm(0)->id = 0;
	planted_comm(1)->streams[3].kind = 3;
	planted_comm(1)->streams[3].state = ANYNET_STATS_UP;
	planted_comm(2)->streams[0].state = 0;
	planted_comm(3)->is_send = 2;
	planted_seal();
	page = planted_parse();
	assert_int_equal(page.count, 0);
	page_free(&page);
	planted_fill(1, 2, 4);
	planted_comm(0)->error = 1;
	planted_comm(1)->error = -4096; /* not an errno */
	planted_comm(2)->error = INT32_MIN;
	planted_comm(3)->error = -4095;
	planted_seal();
	page = planted_parse();
	assert_int_equal(page.count, 1);
	assert_int_equal(page.comms[0].id, 4);
	page_free(&page);
}

static void test_a_page_that_ends_early_has_fewer_records(void **state)
{
	struct page page;

	(void)state;
	planted_fill(1, 2, 4);
	planted_head()->slots = ANYNET_STATS_COMMS;
	planted_seal();
	assert_int_equal(page_parse(&page, planted_bytes, anynet_stats_comm_at(2) + 17), 0);
	assert_int_equal(page.count, 2);
	page_free(&page);
	assert_int_equal(page_parse(&page, planted_bytes, sizeof(*planted_head())), 0);
	assert_int_equal(page.count, 0);
	page_free(&page);
}

static void test_texts_end_and_are_printable(void **state)
{
	struct page page;

	(void)state;
	planted_fill(1, 2, 1);
	memset(planted_head()->host, 'h', sizeof(planted_head()->host));
	memcpy(planted_head()->job, "\033[2Jx\xff", 6);
	memset(planted_comm(0)->peer_host, 0x9b, sizeof(planted_comm(0)->peer_host));
	memset(planted_comm(0)->streams[0].path, '\n', sizeof(planted_comm(0)->streams[0].path));
	memset(planted_comm(0)->asked, 'a', sizeof(planted_comm(0)->asked));
	planted_seal();
	page = planted_parse();
	assert_int_equal(strlen(page.process.host), sizeof(page.process.host) - 1);
	assert_string_equal(page.process.job, "?[2Jx?");
	assert_int_equal(strspn(page.comms[0].peer_host, "?"), 63);
	assert_int_equal(strspn(page.comms[0].streams[0].path, "?"), 111);
	assert_int_equal(strlen(page.comms[0].asked), 95);
	page_free(&page);
}

static void test_torn_and_invalid_events_are_skipped(void **state)
{
	struct page page;

	(void)state;
	planted_fill(1, 2, 4);
	planted_events(1)->count++; /* torn */
	planted_events(3)->events[31].text[71]++;
	page = planted_parse();
	assert_int_equal(page.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(page.events[i].count, i % 2 ? 0 : 1);
	page_free(&page);
	planted_fill(1, 2, 4);
	planted_events(0)->id = 2; /* the id of another comm */
	planted_events(1)->events[0].kind = 0;
	planted_events(2)->events[0].kind = ANYNET_EVENT_KINDS;
	planted_events(3)->events[0].error = 1;
	planted_seal();
	page = planted_parse();
	assert_int_equal(page.count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(page.events[i].count, 0);
	page_free(&page);
	planted_fill(1, 2, 1);
	assert_int_equal(page_parse(&page, planted_bytes, anynet_stats_events_at(0) + 100), 0);
	assert_int_equal(page.count, 1);
	assert_int_equal(page.events[0].count, 0);
	page_free(&page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_invalid_pages_are_rejected),
		cmocka_unit_test(test_users_share_the_limit),
		cmocka_unit_test(test_page_share),
		cmocka_unit_test(test_torn_and_invalid_records_are_skipped),
		cmocka_unit_test(test_a_page_that_ends_early_has_fewer_records),
		cmocka_unit_test(test_texts_end_and_are_printable),
		cmocka_unit_test(test_torn_and_invalid_events_are_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
