/* SPDX-License-Identifier: Apache-2.0 */
/* A cable that is pulled and plugged in again: the events, and the traffic. */
#include "rig.h"

#include <stdio.h>
#include <time.h>

static void need_cable(void)
{
	if (rig.traits->fake || getenv("VERBS_LINK"))
		return;
	puts("SKIP verbs: VERBS_LINK is not set");
	exit(TEST_SKIPPED);
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
	check(length >= 1 && length < (int)sizeof(command));
	check_ok(system(command));
}

static void await_port(struct end *end, enum ibv_port_state state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the port's state");

	do {
		check_ok(rig.verbs.query_port(end->context, 1, &end->port));
		deadline_turn(&deadline);
	} while (end->port.state != state);
}

static void a_pulled_cable(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	need_cable();
	end_do(&rig.a, &write);
	link_set(false);
	end_wait_event(&rig.a, IBV_EVENT_PORT_ERR);
	end_wait_event(&rig.b, IBV_EVENT_PORT_ERR);
	await_port(&rig.a, IBV_PORT_DOWN);
	await_port(&rig.b, IBV_PORT_DOWN);
	check_int(qp_state(&rig.a), IBV_QPS_RTS); /* it notices when it sends */
	end_fails(&rig.a, &write, IBV_WC_RETRY_EXC_ERR);
	qp_await(&rig.a, IBV_QPS_ERR);
	ends_drop();
	link_set(true);
	end_wait_event(&rig.a, IBV_EVENT_PORT_ACTIVE);
	end_wait_event(&rig.b, IBV_EVENT_PORT_ACTIVE);
	await_port(&rig.a, IBV_PORT_ACTIVE);
	await_port(&rig.b, IBV_PORT_ACTIVE);
}

/* After the one above: the GIDs are back, and connections work again. */
static void a_cable_that_was_put_back(void)
{
	struct op write = op_write(&rig.b, 0, 0, 64);

	need_cable();
	end_do(&rig.a, &write);
}

/* Pulled for less than the sender's retries: nothing fails. */
static void a_cable_that_was_out_for_a_moment(void)
{
	struct terms terms = { .timeout = rig.traits->fake ? 22 : 17, .retries = 6 };
	struct op write = op_write(&rig.b, 0, 0, 64);
	struct timespec moment = { .tv_nsec = 50000000 };

	need_cable();
	ends_connect(&terms);
	fill(rig.a.memory, 64, 1);
	link_set(false);
	for (int i = 0; i < 4; i++) {
		write.remote = (uintptr_t)rig.b.memory + (uint64_t)i * 64;
		check_ok(end_post(&rig.a, &write));
	}
	nanosleep(&moment, NULL);
	link_set(true);
	for (int i = 0; i < 4; i++) {
		end_wait_opcode(&rig.a, IBV_WC_RDMA_WRITE);
		check(!memcmp(rig.b.memory + (ptrdiff_t)i * 64, rig.a.memory, 64));
	}
}

const struct selfcheck links_checks[] = {
	{ CHECK(a_pulled_cable) },
	{ CHECK(a_cable_that_was_put_back) },
	{ CHECK(a_cable_that_was_out_for_a_moment), .setting = OPEN },
	{ 0 },
};
