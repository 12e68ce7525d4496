/* SPDX-License-Identifier: Apache-2.0 */
/* Which new connections a sender makes for a rail that broke or whose path is in doubt, as far as it is
 * decided by who looks at the comm. */
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "carrier.h"
#include "signs.h"
#include "support/check.h"
#include "transports/common/heal.h"
#include "transports/common/socket.h"

static const struct rail_signs dead = { .waiting = true, .tries = 2 };

enum {
	OWN, /* the rail's path */
	OTHER,
	PATHS
};

static int listeners[PATHS];
static uint64_t start; /* dialling takes no time here: nothing is given up */

static int setup(void **state)
{
	signs_setup(state);
	signs_open_send(1);
	resume_listen(&signs.pair, listeners, PATHS);
	signs.now = start = net_now_ms();
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < PATHS; i++)
		close(listeners[i]);
	return signs_teardown(state);
}

static void step(void)
{
	heal_step(signs.pair.send, start);
}

/* The first connection comes over this path, and so far none over the other. */
static void dialled_first(int path)
{
	struct pollfd first = { .fd = listeners[path], .events = POLLIN },
		      second = { .fd = listeners[!path], .events = POLLIN };

	step();
	assert_int_equal(poll(&first, 1, TEST_PATIENCE_MS), 1);
	assert_int_equal(poll(&second, 1, 0), 0);
}

static void suspect(void)
{
	signs.rails[0] = dead;
	signs_look_after(0);
	signs_look_after(400);
	assert_true(signs.pair.send->rails[0]->suspect);
}

static void test_for_a_silent_path_others_are_tried_first(void **state)
{
	(void)state;
	suspect();
	dialled_first(OTHER);
}

static void test_for_a_rail_that_broke_its_own_path_is_tried_first(void **state)
{
	(void)state;
	pair_hang_up(&signs.pair, 0);
	for (int i = 0; i < 5; i++)
		comm_turn(signs.pair.send);
	assert_int_equal(signs.pair.send->rails[0]->fd, -1);
	heal_free(signs.pair.send); /* as if there had been no memory: the next look begins again */
	signs_look_after(0);
	dialled_first(OWN);
}

/* Nobody is answered there before accept is called. */
static int fill_backlog(int listener)
{
	const struct sockaddr_in *local = (const struct sockaddr_in *)&local_dev.addr;
	struct sockaddr_in addr = *local;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	addr.sin_port = htons((uint16_t)socket_port(listener));
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Which connection is being made? Its descriptor is the lowest that was free. 0 = none. */
static ino_t being_made(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) ? 0 : stat.st_ino;
}

/* It may be waiting for a link that was gone: what was sent over it is sent again only much later. */
static void test_what_is_being_made_begins_anew_with_a_link_event_only(void **state)
{
	int filler = fill_backlog(listeners[OTHER]), fd = dup(filler);
	struct anynet_comm *send = signs.pair.send;
	ino_t made;

	(void)state;
	close(fd);
	suspect();
	step();
	made = being_made(fd);
	assert_true(made);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 3; i++) {
			signs_look_after(100);
			step();
			assert_int_equal(being_made(fd), made);
		}
		atomic_store(&send->link_event, true);
		signs_look_after(100);
		assert_false(atomic_load(&send->link_event));
		assert_int_equal(being_made(fd), 0);
		step();
		made = being_made(fd);
		assert_true(made);
	}
	close(filler);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_for_a_silent_path_others_are_tried_first),
		TEST(test_for_a_rail_that_broke_its_own_path_is_tried_first),
		TEST(test_what_is_being_made_begins_anew_with_a_link_event_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
