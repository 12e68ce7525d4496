/* SPDX-License-Identifier: Apache-2.0 */
/* Slow calls of libibverbs in a thread of their own: the background thread does not wait for them, and they are done. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/service/background.h"
#include "unit/ib_ends.h"

#define HELD_S \
	5 /* after this a background thread that waits for a chore continues, and the test fails */

static struct verbs stub, verbs; /* those of the stub, observed by the test */
static sem_t begun, may_end;
static _Atomic unsigned destroyed;

/* Also if the background thread has found nothing to do before a closed comm has given its queue pairs back. */
static bool closed_comm_leaves_no_queue_pair(void)
{
	const struct timespec while_it_falls_asleep = { .tv_nsec = 100000000 };
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the end of a queue pair");
	struct pair pair = { .fds = { 0 } };
	void *state = NULL;

	pair_setup(&state);
	ib_ends_start();
	pair_open_send(&pair, 1);
	comm_cancel(pair.send);
	background_rouse();
	nanosleep(&while_it_falls_asleep, NULL);
	ib_qp_retire(ib_connector(true)); /* as comm_destroy */
	anynet_close(pair.send);
	while (ib_chores_pending())
		deadline_turn(&deadline);
	return true;
}

static void test_a_closed_comm_leaves_no_queue_pair(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	if (!child)
		_exit(!closed_comm_leaves_no_queue_pair());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static int destroy_qp(struct ibv_qp *qp)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HELD_S;
	sem_post(&begun);
	sem_timedwait(&may_end, &until);
	destroyed++;
	return stub.destroy_qp(qp);
}

static void test_the_background_thread_goes_on_while_queue_pairs_are_destroyed(void **state)
{
	struct ib_nic *nic;

	pair_setup(state);
	nic = ib_ends_start();
	stub = verbs = *nic->verbs;
	nic->verbs = &verbs;
	sem_init(&begun, 0, 0);
	sem_init(&may_end, 0, 0);
	verbs.destroy_qp = destroy_qp;
	for (unsigned round = 0; round < 3; round++) {
		ib_qp_retire(ib_connector(true));
		assert_false(ib_chores());
		sem_wait(&begun);
		assert_true(ib_chores_pending());
		assert_false(ib_chores());
		assert_int_equal(destroyed, round);
		sem_post(&may_end);
		ib_chores_finish();
		assert_int_equal(destroyed, round + 1);
		assert_false(ib_chores_pending());
	}
	capture_check();
	assert_int_equal(stub_objects(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			test_a_closed_comm_leaves_no_queue_pair), /* before one is made here */
		cmocka_unit_test(
			test_the_background_thread_goes_on_while_queue_pairs_are_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
