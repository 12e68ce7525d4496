/* SPDX-License-Identifier: Apache-2.0 */
/* Comms are created and closed while threads of the plugin use others all the time. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/session/registry.h"

#define READERS 6
#define ROUNDS  20

static atomic_bool over;

/* As an I/O thread: uses a comm for a millisecond, then the next. */
static void *work(void *token)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	while (!atomic_load(&over)) {
		registry_hold(*(const uint64_t *)token);
		nanosleep(&moment, NULL);
		registry_release();
	}
	return NULL;
}

static void test_a_new_comm_does_not_wait_for_ever(void **state)
{
	struct session sessions[] = { { .slot = -1 }, { .slot = -1 } };
	struct anynet_comm busy = { .session = &sessions[0] }, new = { .session = &sessions[1] };
	pthread_t threads[READERS];
	uint64_t token;

	(void)state;
	assert_int_equal(registry_add(&busy), 0);
	token = sessions[0].slot_token;
	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work, &token), 0);
	alarm(250); /* without effect by then */
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(registry_add(&new), 0);
		registry_remove(&new);
	}
	alarm(0);
	atomic_store(&over, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(threads[i], NULL);
	registry_remove(&busy);
}

static void test_a_freed_slot_is_taken_first(void **state)
{
	struct session sessions[4];
	struct anynet_comm comms[4];

	(void)state;
	for (int i = 0; i < 4; i++) {
		sessions[i] = (struct session){ .slot = -1 };
		comms[i] = (struct anynet_comm){ .session = &sessions[i] };
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(registry_add(&comms[i]), 0);
	registry_remove(&comms[2]);
	registry_remove(&comms[1]);
	assert_int_equal(registry_add(&comms[1]), 0);
	assert_int_equal(sessions[1].slot, 1);
	assert_int_equal(registry_add(&comms[2]), 0);
	assert_int_equal(sessions[2].slot, 2);
	assert_int_equal(registry_add(&comms[3]), 0);
	assert_int_equal(sessions[3].slot, 3);
	for (int i = 0; i < 4; i++)
		registry_remove(&comms[i]);
	assert_true(registry_is_empty());
}

static void note(struct anynet_comm *comm, void *sum)
{
	assert_false(comm_try_enter(comm));
	*(unsigned *)sum += 1u << comm->session->slot;
}

/* A thread uses one of them for a while. */
static void *leave_late(void *comm)
{
	const struct timespec moment = { .tv_nsec = 20000000 };

	nanosleep(&moment, NULL);
	comm_leave(comm);
	return NULL;
}

static void test_each_comm_is_entered_once(void **state)
{
	struct session sessions[5];
	struct anynet_comm comms[5];
	pthread_t thread;
	unsigned sum = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		sessions[i] = (struct session){ .slot = -1 };
		comms[i] = (struct anynet_comm){ .session = &sessions[i] };
		assert_int_equal(registry_add(&comms[i]), 0);
	}
	registry_remove(&comms[1]);
	assert_true(comm_try_enter(&comms[3]));
	assert_int_equal(pthread_create(&thread, NULL, leave_late, &comms[3]), 0);
	registry_each_entered(note, &sum);
	assert_int_equal(sum, 1u << 0 | 1u << 2 | 1u << 3 | 1u << 4);
	pthread_join(thread, NULL);
	for (int i = 0; i < 5; i++) {
		assert_true(comm_try_enter(&comms[i]));
		registry_remove(&comms[i]);
	}
}

#define VISITED 3

/* One pass over the comms, and a thread that adds another one meanwhile. */
struct pass {
	struct anynet_comm *late;
	pthread_t thread;
	unsigned visits;
	atomic_bool begun, added;
	bool in_between; /* it was added before the last visit */
};

static void *add_late(void *arg)
{
	struct pass *pass = arg;

	atomic_store(&pass->begun, true);
	check_int(registry_add(pass->late), 0);
	atomic_store(&pass->added, true);
	return NULL;
}

static void take_a_while(struct anynet_comm *comm, void *arg)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct pass *pass = arg;

	if (comm == pass->late)
		return;
	if (!pass->visits++)
		assert_int_equal(pthread_create(&pass->thread, NULL, add_late, pass), 0);
	while (!atomic_load(&pass->begun))
		sched_yield();
	pass->in_between = atomic_load(&pass->added);
	nanosleep(&moment, NULL);
}

/* A visit may end a queue pair, or wait for a GPU. */
static void test_a_new_comm_waits_for_one_visit_only(void **state)
{
	struct deadline deadline =
		deadline_in(TEST_PATIENCE_MS, "a comm to be added between two visits");
	struct session sessions[VISITED + 1];
	struct anynet_comm comms[VISITED + 1];
	bool in_between = false;

	(void)state;
	for (int i = 0; i <= VISITED; i++) {
		sessions[i] = (struct session){ .slot = -1 };
		comms[i] = (struct anynet_comm){ .session = &sessions[i] };
		if (i < VISITED)
			assert_int_equal(registry_add(&comms[i]), 0);
	}
	for (; !in_between; deadline_turn(&deadline)) {
		struct pass pass = { .late = &comms[VISITED] };

		registry_each(take_a_while, &pass);
		assert_int_equal(pass.visits, VISITED);
		pthread_join(pass.thread, NULL);
		registry_remove(pass.late);
		in_between = pass.in_between;
	}
	for (int i = 0; i < VISITED; i++)
		registry_remove(&comms[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_comm_does_not_wait_for_ever),
		cmocka_unit_test(test_a_freed_slot_is_taken_first),
		cmocka_unit_test(test_each_comm_is_entered_once),
		cmocka_unit_test(test_a_new_comm_waits_for_one_visit_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
