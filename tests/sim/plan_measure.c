/* SPDX-License-Identifier: Apache-2.0 */
/* Draws runs that measure: what one fault costs, with all else in order. See plan.h. */
#include "sim/plan.h"

#include <string.h>

#define STALL_FAULTS  50
#define STALL_BLOCK   4
#define FIRST_FAULT   SIM_S

#define WINDOW_NS    (600 * SIM_S)
#define STEP_NS      (5 * SIM_S)
#define WINDOW_BYTES 16384

/* Default settings, and a network in order. */
static void draw_order(struct plan *plan)
{
	plan->ranks_per_host = plan->rounds = plan->tags = plan->group = plan->channels = 1;
	plan->nics = 2;
	plan->block = STALL_BLOCK;
	plan->receives = plan->setting_count = plan->fault_count = 0;
	plan->checksum = false;
	memset(plan->aims, 0, sizeof(plan->aims));
	plan->lossy = plan->shortens = plan->preempts = 0;
	plan->bytes_per_ms = 1250000;
	plan->mbps = 10000;
	plan->sndbuf = 2621440;
	plan->rcvbuf = 3145728;
	plan->together = plan->barrier = plan->polls = true;
	plan->peer_timeout_ns = 30 * SIM_S;
}

void plan_draw_stalls(struct plan *plan, enum fault_kind kind)
{
	struct sim_random random = plan_stream(plan->seed, "stalls");
	uint64_t at_ns = FIRST_FAULT + random_below(&random, SIM_S);
	bool moment = kind == FAULT_RESET || kind == FAULT_HALF;

	draw_order(plan);
	plan->hosts = 2;
	plan->latency_ns = ONE_OF(&random, 1000, 5000, 50000);
	plan->bytes_max = ONE_OF(&random, 4096, 65536, 262144);
	plan->gap_ns = ONE_OF(&random, 100, 200, 300) * SIM_MS;
	while (plan->fault_count < STALL_FAULTS) {
		struct plan_fault *fault = &plan->faults[plan->fault_count];

		*fault = (struct plan_fault){ .kind = kind, .at_ns = at_ns, .nic = plan->fault_count };
		fault->host = random_below(&random, 2);
		fault->other = fault->host + 1;
		fault->pick = random_next(&random) >> 8;
		fault->for_ns = ONE_OF(&random, 20, 100, 300, 600, 1000) * (SIM_MS / 2 + random_below(&random, SIM_MS / 2));
		if (moment)
			fault->for_ns = 1;
		at_ns += fault->for_ns + random_between(&random, 1500, 4000) * SIM_MS;
		plan->fault_count++;
	}
	plan->messages = (unsigned)(at_ns / plan->gap_ns) * STALL_BLOCK;
}

uint64_t plan_window_ns(void)
{
	return WINDOW_NS;
}

/* Each host exchanges messages with its neighbours of a ring, every STEP_NS. */
void plan_draw_window(struct plan *plan, unsigned hosts)
{
	struct sim_random random = plan_stream(plan->seed, "window");

	draw_order(plan);
	plan->hosts = hosts ? hosts : PLAN_WINDOW_HOSTS;
	plan->latency_ns = ONE_OF(&random, 1000, 5000, 50000);
	plan->bytes_max = WINDOW_BYTES;
	plan->gap_ns = STEP_NS;
	plan->messages = (unsigned)(WINDOW_NS / STEP_NS) * STALL_BLOCK;
	plan->fault_count = 1;
	plan->faults[0] = (struct plan_fault){
		.kind = (enum fault_kind)ONE_OF(&random, FAULT_CARRIER, FAULT_CARRIER, FAULT_SWITCH, FAULT_SWITCH, FAULT_SILENT,
						FAULT_DEAF, FAULT_DUMB, FAULT_CUT, FAULT_PARTED, FAULT_LOSSY, FAULT_SLOW,
						FAULT_LATE, FAULT_NARROW, FAULT_RESET, FAULT_HALF),
		.at_ns = random_between(&random, 60, 240) * SIM_S + random_below(&random, SIM_S),
		.for_ns = ONE_OF(&random, 1, 10, 60, 300) * (SIM_S / 2 + random_below(&random, SIM_S / 2)),
		.host = random_next(&random) >> 8,
		.other = random_next(&random) >> 8,
		.nic = random_next(&random) >> 8,
		.pick = random_next(&random) >> 8,
	};
}

void plan_draw_quiet(struct plan *plan, unsigned seconds)
{
	plan->hosts = 2;
	plan->nics = 1;
	plan->ranks_per_host = plan->rounds = 1;
	plan->tags = plan->group = plan->channels = 1;
	plan->block = 4;
	plan->receives = plan->setting_count = plan->fault_count = 0;
	memset(plan->aims, 0, sizeof(plan->aims));
	plan->lossy = plan->shortens = plan->preempts = plan->ack_delays = 0;
	plan->jitter_ns = 0;
	plan->bytes_per_ms = 1250000;
	plan->mbps = 10000;
	plan->latency_ns = 5000;
	plan->bytes_max = 65536;
	plan->abi = 12;
	plan->peer_timeout_ns = 30 * SIM_S;
	plan->messages = 4 * seconds;
	plan->gap_ns = SIM_S;
}
