/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread and comms that nobody polls. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "support/peer.h"
#include "transports/base/os.h"
#include "transports/service/background.h"
#include "transports/session/registry.h"
#include "unit/pair.h"

#define ROUSES     1000
#define BETWEEN_MS 100 /* two tries to start the thread */
#define LOOKS      20  /* ten times a second */
#define ASKED      6
#define STAYS_MS   250 /* a process that is to stay until its data is read */

static struct pair pair;
static bool refuses;
static unsigned tries;

uint64_t __real_os_now_ms(void);
uint64_t __wrap_os_now_ms(void);

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

/* Replaces the C library's function by the linker: there are as many threads as may be. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	tries++;
	return refuses ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* NCCL polls connect without a pause. */
static void test_a_thread_that_cannot_start_is_one_warning(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the thread");
	uint64_t begin = os_now_ms();

	(void)state;
	capture_allow_warn();
	refuses = true;
	for (int i = 0; i < ROUSES; i++)
		background_rouse();
	assert_in_range(tries, 1, 1 + (os_now_ms() - begin) / BETWEEN_MS);
	for (unsigned before = tries; tries < before + 2; deadline_turn(&deadline))
		background_rouse();
	assert_int_equal(capture_count(CAPTURE_WARN, "cannot start the background thread"), 1);
	assert_false(background_runs());
	refuses = false;
	for (; !background_runs(); deadline_turn(&deadline))
		background_rouse();
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 1);
}

/* A program may keep a failed comm as long as it likes: the thread checks it as rarely as others, and does not return
 * every 2 ms because its flag stays set. */
static void test_a_failed_comm_keeps_nobody_awake(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a look at the comm");

	(void)state;
	pair_open(&pair, 1);
	assert_int_equal(registry_add(pair.send), 0);
	assert_true(comm_cancel(pair.send));
	atomic_store(&pair.send->attention, true);
	background_rouse();
	while (atomic_load(&pair.send->attention))
		deadline_turn(&deadline);
	registry_remove(pair.send);
}

/* A closed receiver whose connection has broken asks whether its sender is still there, until that is known. */
static void test_a_closed_comm_is_looked_after(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "looks at the comm");
	struct anynet_wire_frame frame = frame_data(0, 0, 0, 5);
	struct anynet_request *req;
	uint64_t looked_ms = 0;
	char in[5];

	(void)state;
	pair_open_recv(&pair, 1);
	req = pair_irecv(&pair, in, sizeof(in), 0);
	frame_put(pair.fds[0], &frame, "first");
	pair_finish(&req, 1, NULL);
	pair_hang_up(&pair, 0);
	pair.recv->session->drain_until_ms = os_now_ms() + 2 * TEST_PATIENCE_MS;
	atomic_store(&pair.recv->session->closing, true);
	assert_int_equal(registry_add(pair.recv), 0);
	background_rouse();
	for (int looks = 0; looks < LOOKS;) {
		comm_enter(pair.recv);
		looks += pair.recv->session->watch.looked_ms != looked_ms;
		looked_ms = pair.recv->session->watch.looked_ms;
		comm_leave(pair.recv);
		deadline_turn(&deadline);
	}
	registry_remove(pair.recv);
}

static struct anynet_comm *held; /* at exit; the test has its lock until the background thread has looked */
static pthread_t holder;
static uint64_t held_ms;

/* Each round of that thread asks for the time at least twice, and then looks. The time stands still until it has looked. */
uint64_t __wrap_os_now_ms(void)
{
	static _Atomic unsigned asked;

	if (!held || asked >= ASKED)
		return __real_os_now_ms();
	if (!pthread_equal(pthread_self(), holder) && ++asked == ASKED)
		comm_leave(held);
	return held_ms;
}

_Noreturn static void exit_with_unsent_data(void)
{
	check_set_report(NULL);
	pair_send(&pair, pair_out, 50);
	check_that(!registry_add(pair.send), "no room");
	background_rouse();
	comm_enter(pair.send);
	holder = pthread_self();
	held_ms = os_now_ms();
	held = pair.send;
	exit(0);
}

/* Its lock may be another thread's for a moment, at any time. */
static void test_exit_waits_for_a_comm_that_is_in_use(void **state)
{
	char in[256];
	int status;
	pid_t pid;

	(void)state;
	pair_open_send(&pair, 1);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		exit_with_unsent_data();
	assert_false(peer_reap(pid, STAYS_MS, &status));
	assert_true(recv(pair.fds[0], in, sizeof(in), 0) > 0);
	assert_true(peer_reap(pid, TEST_PATIENCE_MS, &status));
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* first: the thread is the process's own, and ends with it */
		cmocka_unit_test_prestate_setup_teardown(test_exit_waits_for_a_comm_that_is_in_use,
							 pair_setup_recovery, pair_teardown, &pair),
		cmocka_unit_test_prestate_setup_teardown(
			test_a_thread_that_cannot_start_is_one_warning, pair_setup, pair_teardown,
			&pair),
		cmocka_unit_test_prestate_setup_teardown(test_a_failed_comm_keeps_nobody_awake,
							 pair_setup_recovery, pair_teardown, &pair),
		cmocka_unit_test_prestate_setup_teardown(test_a_closed_comm_is_looked_after,
							 pair_setup_recovery, pair_teardown, &pair),
	};

	return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
