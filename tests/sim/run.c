/* SPDX-License-Identifier: Apache-2.0 */
/* See run.h. */
#include "sim/run.h"
#include "sim/faults.h"
#include "sim/net.h"
#include "sim/tcp.h"
#include "sim/verbs.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_NS     (1000 * SIM_S)
#define MOST_SECONDS 120 /* of a processor for a run, after which it is considered an endless loop */

static struct run_result *current;
static uint64_t limit_ns;

static void finish(struct run_result *result)
{
	latency_end(&result->times);
	result->sim_ns = sim_now - START_NS;
	result->trace = sim_trace;
	result->bytes = rank_bytes;
	result->ended = true;
}

_Noreturn void sim_fail(const char *fmt, ...)
{
	va_list args;
	size_t n;

	if (!current)
		abort();
	n = (size_t)snprintf(current->text, RUN_TEXT_BYTES, "at %.6f s: ", (double)sim_now / 1e9);
	va_start(args, fmt);
	vsnprintf(current->text + n, RUN_TEXT_BYTES - n, fmt, args);
	va_end(args);
	if (rank_prints) {
		printf("%s\n", current->text);
		ranks_describe();
	}
	current->failed = true;
	finish(current);
	fflush(NULL);
	_exit(1);
}

static bool over(void)
{
	if (sim_now > limit_ns)
		sim_fail("no end in sight %.0f s after the start", (double)(sim_now - START_NS) / 1e9);
	return ranks_over();
}

static void start_hosts(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->hosts; i++) {
		struct sim_host *host = net_host_new(plan->nics);

		for (unsigned j = 0; j < plan->nics; j++)
			host->nic[j] = (struct sim_nic){ .lossy = plan->lossy,
							 .narrow = plan->narrow,
							 .latency_ns = plan->latency_ns,
							 .jitter_ns = plan->jitter_ns,
							 .mbps = plan->mbps,
							 .bytes_per_ms = plan->bytes_per_ms };
	}
}

void run_here(const struct plan *drawn, struct run_result *result)
{
	static struct plan plan;

	plan = *drawn;
	current = result;
	result->only_kind = plan.only_kind;
	sim_now = START_NS;
	limit_ns = START_NS + plan.limit_ns;
	for (unsigned i = 0; i < plan.fault_count; i++)
		plan.faults[i].at_ns += START_NS;
	net_random.state = plan.seed << 8 | 1;
	sched_random.state = plan.seed << 8 | 2;
	verbs_random.state = plan.seed << 8 | 3;
	sched_preempts = plan.preempts;
	tcp_ack_delays = plan.ack_delays;
	tcp_sndbuf = plan.sndbuf;
	tcp_rcvbuf = plan.rcvbuf;
	rank_times = &result->times;
	rank_count = plan.hosts * plan.ranks_per_host;
	ranks = calloc(rank_count, sizeof(*ranks));
	if (!ranks)
		abort();
	start_hosts(&plan);
	edges_start(&plan);
	for (unsigned i = 0; i < rank_count; i++)
		rank_start(&ranks[i], &plan, i);
	faults_start(&plan);
	sched_run(over);
	if (!ranks_over())
		sim_fail("nothing is left to happen");
	finish(result);
}

struct run_result *run_results(unsigned count)
{
	void *results = mmap(NULL, count * sizeof(struct run_result), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (results == MAP_FAILED)
		abort();
	return results;
}

bool run_start(uint64_t seed, const struct plan_limits *limits, struct run_result *result, int *pid)
{
	/* The soft limit sends SIGXCPU; at the hard one it would be SIGKILL. */
	static const struct rlimit most = { MOST_SECONDS, MOST_SECONDS + 10 };
	static struct plan plan;

	memset(result, 0, sizeof(*result));
	result->seed = seed;
	fflush(NULL);
	*pid = fork();
	if (*pid)
		return *pid > 0;
	setrlimit(RLIMIT_CPU, &most);
	plan_draw(&plan, seed, limits);
	run_here(&plan, result);
	fflush(NULL);
	_exit(0);
}

void run_judge(struct run_result *result, int status)
{
	if (result->ended)
		return;
	result->failed = true;
	snprintf(result->text, sizeof(result->text), "the simulator ends by signal %d%s",
		 WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status),
		 WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU ? ": it spins" : "");
}

void run_one(uint64_t seed, const struct plan_limits *limits, struct run_result *result)
{
	int pid, status = 0;

	if (!run_start(seed, limits, result, &pid))
		abort();
	waitpid(pid, &status, 0);
	run_judge(result, status);
}

void run_command(uint64_t seed, const struct plan_limits *limits, char *text, size_t bytes)
{
	size_t n = (size_t)snprintf(text, bytes, "--seed=%" PRIu64, seed);

#define ADD(given, ...)                                                    \
	do {                                                               \
		if (given)                                                 \
			n += (size_t)snprintf(text + n, bytes - n, __VA_ARGS__); \
	} while (0)
	ADD(limits->hosts, " --hosts=%u", limits->hosts);
	ADD(limits->nics, " --nics=%u", limits->nics);
	ADD(limits->messages, " --messages=%u", limits->messages);
	ADD(limits->rounds, " --rounds=%u", limits->rounds);
	ADD(limits->bytes, " --bytes=%zu", limits->bytes);
	ADD(limits->some_faults, " --faults=0x%" PRIx64, limits->faults);
	ADD(limits->plain, " --plain");
	ADD(limits->together, " --together");
	ADD(limits->turns, " --turns");
	ADD(limits->brief, " --brief");
	ADD(limits->stalls, " --stalls");
	ADD(limits->window, " --window");
	ADD(limits->ib, " --ib");
	ADD(limits->kind >= 0, " --kind=%s", fault_names[limits->kind]);
#undef ADD
}

/* --- shrinking a failing run --- */

static bool still_fails(uint64_t seed, const struct plan_limits *limits)
{
	static struct run_result *result;

	if (!result)
		result = run_results(1);
	run_one(seed, limits, result);
	return result->failed;
}

static void try(uint64_t seed, struct plan_limits *limits, const struct plan_limits *smaller)
{
	if (memcmp(limits, smaller, sizeof(*limits)) && still_fails(seed, smaller))
		*limits = *smaller;
}

static void shrink_faults(uint64_t seed, struct plan_limits *limits)
{
	for (unsigned i = 0; i < PLAN_FAULTS_MAX; i++) {
		struct plan_limits smaller = *limits;

		smaller.faults &= ~(UINT64_C(1) << i);
		try(seed, limits, &smaller);
	}
}

static void shrink_numbers(uint64_t seed, struct plan_limits *limits)
{
	static const unsigned messages[] = { 1, 4, 8, 16, 64 }, hosts[] = { 2, 3, 4 };
	static const size_t bytes[] = { 64, 4096, 65536 };
	struct plan_limits smaller;

#define SHRINK(field, values)                                                                   \
	for (unsigned i = 0; !limits->field && i < sizeof(values) / sizeof((values)[0]); i++) { \
		smaller = *limits;                                                              \
		smaller.field = (values)[i];                                                    \
		try(seed, limits, &smaller);                                                    \
	}
	SHRINK(hosts, hosts)
	SHRINK(rounds, ((const unsigned[]){ 1 }))
	SHRINK(nics, ((const unsigned[]){ 1, 2 }))
	SHRINK(messages, messages)
	SHRINK(bytes, bytes)
#undef SHRINK
	smaller = *limits;
	smaller.plain = true;
	try(seed, limits, &smaller);
	smaller = *limits;
	smaller.together = true;
	try(seed, limits, &smaller);
}

void run_shrink(uint64_t seed, struct plan_limits *limits)
{
	struct plan_limits all = *limits;

	if (!all.some_faults) {
		all.some_faults = true;
		all.faults = UINT64_MAX;
		*limits = all;
	}
	shrink_numbers(seed, limits);
	shrink_faults(seed, limits);
	shrink_numbers(seed, limits);
}
