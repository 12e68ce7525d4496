/* SPDX-License-Identifier: Apache-2.0 */
/* A cable that is pulled and put back: what is told, and what becomes of the traffic. */
#include "rig.h"

#include <stdio.h>
#include <time.h>

static void need_cable(void)
{
	if (rig.traits->fake || getenv("VERBS_LINK"))
		return;
	puts("SKIP verbs: VERBS_LINK is not set");
	skip();
}

static void link_set(bool up)
{
	char command[512];
	int length;

	if (rig.traits->fake) {
		for (int i = 0; i < 2; i++) {
			snprintf(command, sizeof(command), "set %s:1 state=%s", rig.devices[i],
				 up ? "active" : "down");
			order(command);
		}
		return;
	}
	length = snprintf(command, sizeof(command), "%s %s", getenv("VERBS_LINK"),
			  up ? "up" : "down");
	assert_in_range(length, 1, sizeof(command) - 1);
	assert_int_equal(system(command), 0);
}

static void await_port(struct end *end, enum ibv_port_state state)
{
	double until = seconds() + PATIENCE;

	do {
		assert_int_equal(rig.verbs.query_port(end->context, 1, &end->port), 0);
		assert_true(seconds() < until);
	} while (end->port.state != state);
}

static void test_a_pulled_cable(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	need_cable();
	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
	link_set(false);
	end_wait_event(&ends->a, IBV_EVENT_PORT_ERR);
	end_wait_event(&ends->b, IBV_EVENT_PORT_ERR);
	await_port(&ends->a, IBV_PORT_DOWN);
	await_port(&ends->b, IBV_PORT_DOWN);
	assert_int_equal(qp_state(&ends->a), IBV_QPS_RTS); /* it finds out when it sends */
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait(&ends->a, IBV_WC_RETRY_EXC_ERR);
	qp_await(&ends->a, IBV_QPS_ERR);
	pair_drop(&ends->a, &ends->b);
	link_set(true);
	end_wait_event(&ends->a, IBV_EVENT_PORT_ACTIVE);
	end_wait_event(&ends->b, IBV_EVENT_PORT_ACTIVE);
	await_port(&ends->a, IBV_PORT_ACTIVE);
	await_port(&ends->b, IBV_PORT_ACTIVE);
}

/* After the one above: the GIDs are back, and so are connections. */
static void test_a_cable_that_was_put_back(void **state)
{
	struct ends *ends = *state;
	struct op write = op_write(&ends->b, 0, 0, 64);

	need_cable();
	pair_connect(&ends->a, &ends->b, NULL);
	assert_int_equal(end_post(&ends->a, &write), 0);
	end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
}

/* Pulled for less than the sender has patience: nobody need know. */
static void test_a_cable_that_was_out_for_a_moment(void **state)
{
	struct ends *ends = *state;
	struct terms terms = { .timeout = rig.traits->fake ? 22 : 17, .retries = 6 };
	struct op write = op_write(&ends->b, 0, 0, 64);
	struct timespec moment = { .tv_nsec = 50000000 };

	need_cable();
	pair_connect(&ends->a, &ends->b, &terms);
	fill(ends->a.memory, 64, 1);
	link_set(false);
	for (int i = 0; i < 4; i++) {
		write.remote = (uintptr_t)ends->b.memory + (uint64_t)i * 64;
		assert_int_equal(end_post(&ends->a, &write), 0);
	}
	nanosleep(&moment, NULL);
	link_set(true);
	for (int i = 0; i < 4; i++) {
		end_wait_opcode(&ends->a, IBV_WC_RDMA_WRITE);
		assert_memory_equal(ends->b.memory + (ptrdiff_t)i * 64, ends->a.memory, 64);
	}
}

int check_links(void)
{
	const struct CMUnitTest links[] = {
		CHECK(test_a_pulled_cable),
		CHECK(test_a_cable_that_was_put_back),
		CHECK(test_a_cable_that_was_out_for_a_moment),
	};

	return cmocka_run_group_tests(links, NULL, NULL);
}
