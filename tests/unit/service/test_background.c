/* SPDX-License-Identifier: Apache-2.0 */
/* The background thread and comms that nobody polls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/service/background.h"
#include "transports/session/registry.h"
#include "unit/pair.h"

static struct pair pair;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate_setup_teardown(test_a_failed_comm_keeps_nobody_awake,
							 pair_setup_recovery, pair_teardown, &pair),
	};

	return cmocka_run_group_tests_name("background", tests, NULL, NULL);
}
