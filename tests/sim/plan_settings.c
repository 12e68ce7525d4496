/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the settings of a run: the environment variables of its ranks. */
#include "sim/plan.h"

#include <stdio.h>
#include <string.h>

#define EAGER "ANYNET_TCP_EAGER"

static void setting(struct plan *plan, const char *name, unsigned value)
{
	snprintf(plan->settings[plan->setting_count++], PLAN_ENV_BYTES, "%s=%u", name, value);
}

static void draw_settings(struct plan *plan)
{
	static const struct {
		const char *name;
		unsigned per_thousand, values[5], count;
	} rows[] = {
		{ "ANYNET_TCP_CONNECTIONS", 400, { 1, 2, 3, 4, 8 }, 5 },
		{ EAGER, 250, { 0, 64, 1000, 65536 }, 4 },
		{ "ANYNET_TCP_REPLAY", 250, { 4096, 16384, 1048576 }, 3 },
		{ "ANYNET_TCP_KEEP", 400, { 0, 65536, 8388608 }, 3 },
		{ "ANYNET_TCP_CHUNK", 250, { 4096, 32768, 1048576 }, 3 },
		{ "ANYNET_CHECKSUM", 300, { 1 }, 1 },
		{ "ANYNET_IO_THREADS", 200, { 1, 2, 4 }, 3 },
		{ "ANYNET_TCP_SNDBUF", 250, { 4096, 65536 }, 2 },
		{ "ANYNET_TCP_RCVBUF", 250, { 4096, 65536 }, 2 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_random random = plan_stream(plan->seed, rows[i].name);

		if (random_chance(&random, rows[i].per_thousand * 1000))
			setting(plan, rows[i].name, plan_one_of(&random, rows[i].values, rows[i].count));
	}
	for (unsigned i = 0; i < plan->setting_count; i++)
		plan->checksum |= !strcmp(plan->settings[i], "ANYNET_CHECKSUM=1");
}

static void draw_checksums(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "checksums at one rank");

	plan->checksum_at_one = random_chance(&random, 500000);
}

/* Then so many acknowledgements are owed at a time that they do not fit into one word of bits. */
static void draw_all_asked_for(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "all asked for");
	unsigned kept = 0;

	if (plan->block < 64 || !random_chance(&random, 500000))
		return;
	for (unsigned i = 0; i < plan->setting_count; i++)
		if (strncmp(plan->settings[i], EAGER "=", strlen(EAGER "=")))
			memmove(plan->settings[kept++], plan->settings[i], PLAN_ENV_BYTES);
	plan->setting_count = kept;
	setting(plan, EAGER, 0);
}

static void draw_timeouts(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "timeouts");
	unsigned peer = random_chance(&random, 500000) ? 30 : ONE_OF(&random, 2, 5, 10);

	plan->peer_timeout_ns = peer * SIM_S;
	plan->recovery_timeout_ns = 60 * SIM_S;
	if (peer != 30)
		setting(plan, "ANYNET_PEER_TIMEOUT", peer);
}

/* Idle times and many short faults outlast these time-outs, a single fault does not. */
static void draw_brief(struct plan *plan)
{
	plan->setting_count = 0;
	plan->checksum = false;
	plan->peer_timeout_ns = 3 * SIM_S;
	plan->recovery_timeout_ns = 5 * SIM_S;
	setting(plan, "ANYNET_PEER_TIMEOUT", 3);
	setting(plan, "ANYNET_RECOVERY_TIMEOUT", 5);
}

void plan_draw_settings(struct plan *plan)
{
	draw_timeouts(plan);
	draw_settings(plan);
	draw_checksums(plan);
	draw_all_asked_for(plan);
	if (plan->brief)
		draw_brief(plan);
}
