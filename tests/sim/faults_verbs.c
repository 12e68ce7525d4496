/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of RDMA NICs, as commands to the fake libibverbs (tests/fakes/verbs/describe.c); see faults.h. */
#include "sim/faults.h"
#include "sim/net.h"
#include "sim/rank.h"
#include "sim/verbs.h"

#include <stdio.h>
#include <string.h>

#define ORDER_BYTES 512
#define GID_FIRST   3 /* the initial index of the GID; later it moves through the next ones */
#define GID_COUNT   8
#define HOSTS_MAX   16
#define PINNED_LEAST 65536
#define LATE_FOR_EVER "fault late recv"

static unsigned gids[HOSTS_MAX][NET_NICS_MAX]; /* the GID's offset from GID_FIRST */

static void order(const struct sim_host *host, const char *script)
{
	for (unsigned i = 0; i < rank_count; i++)
		if (ranks[i].process->host == host)
			verbs_order(ranks[i].process, script);
}

void faults_set_port(struct sim_host *host, unsigned nic, bool down)
{
	char script[ORDER_BYTES];

	if (ranks[0].plan->apart && !nic)
		return;
	host->nic[nic].port_down += down ? 1 : -1u;
	snprintf(script, sizeof(script), "set " VERBS_PREFIX "%u:1 state=%s", nic,
		 host->nic[nic].port_down ? "down" : "active");
	order(host, script);
}

/* InfiniBand has one GID: the port goes down instead. */
static void set_gid(const struct plan *plan, struct sim_host *host, unsigned nic, bool on)
{
	unsigned before = gids[host->index][nic];
	char script[ORDER_BYTES];

	if (!plan->verbs.infiniband && on) {
		snprintf(script, sizeof(script), "set " VERBS_PREFIX "%u:1 gid=%u,none", nic, GID_FIRST + before);
		order(host, script);
	} else if (!plan->verbs.infiniband) {
		gids[host->index][nic] = (before + 1) % GID_COUNT;
		snprintf(script, sizeof(script),
			 "set " VERBS_PREFIX "%u:1 gid=%u,none; set " VERBS_PREFIX "%u:1 gid=%u,10.%u.0.%u,v2,eth%u", nic,
			 GID_FIRST + before, nic, GID_FIRST + gids[host->index][nic], nic, host->index + 1, nic);
		order(host, script);
	}
	faults_set_port(host, nic, on);
}

static void fail_qps(const struct sim_host *host, unsigned nic)
{
	char script[ORDER_BYTES];

	snprintf(script, sizeof(script), "event " VERBS_PREFIX "%u qp-fatal", nic);
	order(host, script);
}

/* This many requests, starting at a random one. */
static void set_requests(const struct plan_fault *fault, struct sim_host *host, bool on)
{
	static const char *const what[] = {
		"fault slow recv ms=1",
		"fault slow recv ms=20",
		"fault slow recv ms=300",
		LATE_FOR_EVER,
		"fault delay any ms=3",
		"fault delay any ms=200",
		"fault tear write",
		"fault tear write-imm",
		"fault overtake write",
		"fault drop any",
		"fault lose any",
		"fault mute any",
		"fault cut any",
		"fault status any status=12",
		"fault status recv status=10",
		"fault call post_send errno=12",
		"fault call post_recv errno=12",
		"fault call create_qp errno=12",
		"fault call create_cq errno=12",
		"fault call modify_qp errno=22",
		"fault call query_port errno=5",
		"fault call query_gid_table errno=5",
		"fault call alloc_pd errno=12",
		"fault call open_device errno=5",
		"fault call reg_mr errno=12",
		"fault call get_device_list errno=12",
	};
	static const unsigned counts[] = { 1, 1, 2, 5, 20, 1000000 };
	const char *chosen = what[fault->pick % (sizeof(what) / sizeof(what[0]))];
	char script[ORDER_BYTES];

	if (!on) {
		order(host, "no-faults");
		/* If nothing more is sent, a completion that never comes stays unnoticed: the adapter reports the
		 * error. */
		for (unsigned i = 0; !strcmp(chosen, LATE_FOR_EVER) && i < host->nics; i++)
			fail_qps(host, i);
		return;
	}
	snprintf(script, sizeof(script), "%s nth=%u count=%u", chosen, (unsigned)(1 + (fault->pick >> 16) % 40),
		 counts[(fault->pick >> 32) % (sizeof(counts) / sizeof(counts[0]))]);
	if (rank_prints)
		printf("%12.6f host %u: %s\n", (double)sim_now / 1e9, host->index, script);
	order(host, script);
}

static void set_pinned(const struct plan_fault *fault, struct sim_host *host, bool on)
{
	char script[ORDER_BYTES];

	snprintf(script, sizeof(script), "memlock %lu",
		 on ? PINNED_LEAST * (unsigned long)(1 + fault->pick % 16) : UINT64_MAX);
	order(host, script);
}

void faults_set_verbs(const struct plan *plan, const struct plan_fault *fault, bool on)
{
	struct sim_host *host = net_hosts[fault->host % plan->hosts];
	unsigned nic = (unsigned)(fault->nic % plan->nics);
	char script[ORDER_BYTES];

	switch (fault->kind) {
	case FAULT_PORT:
		faults_set_port(host, nic, on);
		break;
	case FAULT_GID:
		set_gid(plan, host, nic, on);
		break;
	case FAULT_DEVICE:
		snprintf(script, sizeof(script), "%s " VERBS_PREFIX "%u", on ? "fatal" : "revive", nic);
		order(host, script);
		break;
	case FAULT_QP:
		if (on)
			fail_qps(host, nic);
		break;
	case FAULT_VERBS:
		set_requests(fault, host, on);
		break;
	case FAULT_PINNED:
		set_pinned(fault, host, on);
		break;
	default:
		break;
	}
}
