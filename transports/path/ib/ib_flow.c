/* SPDX-License-Identifier: Apache-2.0 */
/* Speed of a queue pair; see ib_flow.h. */
#include "path/ib/ib_flow.h"

#include "base/os.h"

#define SMOOTH 8 /* weight of what was known before, against one new sample, less 1: as TCP's */

static void sample(struct ib_flow *flow, uint64_t us)
{
	us = us ? us : 1;
	flow->rtt_us = flow->rtt_us ? (flow->rtt_us * (SMOOTH - 1) + us) / SMOOTH : us;
	flow->timed = 0;
}

void ib_flow_begin(struct ib_flow *flow, uint64_t frame)
{
	flow->last = frame;
	if (flow->since_us && flow->timed)
		return;
	flow->timed = frame + 1;
	flow->timed_us = os_now_us();
	if (!flow->since_us)
		flow->since_us = flow->timed_us;
}

void ib_flow_arrived(struct ib_flow *flow, uint64_t frame, size_t bytes)
{
	uint64_t now;

	flow->acked += bytes;
	if (frame != flow->last && flow->timed != frame + 1)
		return;
	now = os_now_us();
	if (flow->timed == frame + 1)
		sample(flow, now - flow->timed_us);
	if (frame != flow->last)
		return;
	flow->busy_us += now - flow->since_us;
	flow->since_us = 0;
}

uint64_t ib_flow_busy_us(const struct ib_flow *flow)
{
	return flow->busy_us + (flow->since_us ? os_now_us() - flow->since_us : 0);
}
