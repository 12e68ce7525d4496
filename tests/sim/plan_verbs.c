/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the RDMA NICs of a run; see plan.h. */
#include "sim/plan.h"
#include "sim/net.h"
#include "sim/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plan_has_verbs(const struct plan *plan, unsigned host)
{
	return plan->verbs.hosts >> host & 1;
}

static void drop_setting(struct plan *plan, const char *name)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < plan->setting_count; i++)
		if (strncmp(plan->settings[i], name, strlen(name)) && kept++ != i)
			memcpy(plan->settings[kept - 1], plan->settings[i], PLAN_ENV_BYTES);
	plan->setting_count = kept;
}

/* With checksums all data uses TCP. */
static void draw_checksum(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "verbs checksum");

	if (random_chance(&random, 100000) && !plan->apart)
		return;
	drop_setting(plan, "ANYNET_CHECKSUM");
	plan->checksum = false;
}

/* The value of a setting, or `otherwise`. */
static unsigned value_of(const struct plan *plan, const char *name, unsigned otherwise)
{
	size_t length = strlen(name);

	for (unsigned i = 0; i < plan->setting_count; i++)
		if (!strncmp(plan->settings[i], name, length) && plan->settings[i][length] == '=')
			return (unsigned)strtoul(plan->settings[i] + length + 1, NULL, 10);
	return otherwise;
}

/* One time-out per transmission, encoded as in the InfiniBand specification. The fake's time-outs are at least 1 ms. */
uint64_t plan_give_up_ns(const struct plan *plan)
{
	uint64_t once = UINT64_C(4096) << value_of(plan, "ANYNET_IB_TIMEOUT", 16);

	if (!plan->verbs.hosts)
		return 0;
	once /= plan->verbs.hurry;
	return (value_of(plan, "ANYNET_IB_RETRY_CNT", 7) + 1) * (once > SIM_MS ? once : SIM_MS);
}

static void draw_settings(struct plan *plan)
{
	static const struct {
		const char *name;
		unsigned per_thousand, values[4], count;
	} rows[] = {
		{ "ANYNET_IB_QPS_PER_CONNECTION", 300, { 2, 3, 4 }, 3 },
		{ "ANYNET_IB_SPLIT_DATA_ON_QPS", 300, { 0, 1 }, 2 },
		{ "ANYNET_IB_AR_THRESHOLD", 300, { 0, 1000, 8192 }, 3 },
		{ "ANYNET_IB_ADAPTIVE_ROUTING", 300, { 0, 1 }, 2 },
		{ "ANYNET_IB_TIMEOUT", 200, { 12, 14, 18 }, 3 },
		{ "ANYNET_IB_RETRY_CNT", 200, { 1, 3 }, 2 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sim_random random = plan_stream(plan->seed, rows[i].name);

		if (random_chance(&random, rows[i].per_thousand * 1000))
			snprintf(plan->settings[plan->setting_count++], PLAN_ENV_BYTES, "%s=%u", rows[i].name,
				 plan_one_of(&random, rows[i].values, rows[i].count));
	}
}

/* On a network with permanent packet loss no queue pair survives. */
void plan_draw_verbs(struct plan *plan)
{
	struct sim_random random = plan_stream(plan->seed, "verbs");
	uint64_t all = (UINT64_C(1) << plan->hosts) - 1;

	plan->verbs = (struct plan_verbs){
		.hosts = random_chance(&random, 800000) ? all : random_next(&random) & all,
		.infiniband = random_chance(&random, 250000),
		.by_caller = random_chance(&random, 300000),
		.hurry = ONE_OF(&random, 1, 16, 64),
		.inline_bytes = ONE_OF(&random, 0, 64, 512, 512),
		.sges = ONE_OF(&random, 1, 16, 16),
	};
	if (random_chance(&random, 900000) || plan->apart)
		plan->lossy = 0;
	draw_checksum(plan);
	draw_settings(plan);
	if (plan->apart) {
		plan->verbs.hosts = all;
		snprintf(plan->settings[plan->setting_count++], PLAN_ENV_BYTES,
			 "NCCL_SOCKET_IFNAME==eth0");
	}
}

static int describe_port(const struct plan *plan, unsigned host, unsigned nic, char *text, size_t bytes)
{
	uint32_t address = net_address(host, nic);

	if (plan->verbs.infiniband)
		return snprintf(text, bytes, " port layer=ib lid=%u gid=0,fe80::%x:%x,ib;", nic << 8 | (host + 1), address >> 16, address & 0xffff);
	return snprintf(text, bytes,
			" port layer=eth gid=0,fe80::%x:%x,v1,eth%u gid=1,fe80::%x:%x,v2,eth%u "
			"gid=2,10.%u.0.%u,v1,eth%u gid=3,10.%u.0.%u,v2,eth%u;",
			address >> 16, address & 0xffff, nic, address >> 16, address & 0xffff, nic, nic, host + 1, nic,
			nic, host + 1, nic);
}

void plan_describe_verbs(const struct plan *plan, unsigned host, char *text, size_t bytes)
{
	size_t n = (size_t)snprintf(text, bytes, "hurry %u; progress %s;", plan->verbs.hurry,
				    plan->verbs.by_caller ? "caller" : "thread");

	for (unsigned i = plan->apart; i < plan->nics && n < bytes; i++) {
		n += (size_t)snprintf(text + n, bytes - n, "device " VERBS_PREFIX "%u inline=%u max_sge=%u;", i,
				      plan->verbs.inline_bytes, plan->verbs.sges);
		n += (size_t)describe_port(plan, host, i, text + n, bytes - n);
	}
}
