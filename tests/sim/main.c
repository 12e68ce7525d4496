/* SPDX-License-Identifier: Apache-2.0 */
/*
 * simulate PLUGIN: runs many seeds of the plugin under virtual time, on all processors. Its last line is "simulate: N
 * seeds, S simulated s, W s, F failed"; the exit status is 0 if none has failed.
 */
#include "sim/load.h"
#include "sim/run.h"
#include "sim/selfcheck.h"
#include "sim/verbs.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPIES       40 /* 8 hosts with 2 ranks, and some spare ones */
#define COPIES_DAYS  72 /* 64 hosts */
#define WORKERS_MAX  64
#define FAILURES_MAX 5 /* so many are shown, and shrunk */

static struct {
	const char *plugin, *verbs, *list;
	uint64_t seed, seeds;
	bool one, prints, shrinks, twice, table, selfcheck, stops;
	double seconds, processor_seconds, days;
	double bounds[3]; /* of stalls in ms: half of them, 99 of 100, all; 0 = none */
	unsigned jobs;
	struct plan_limits limits;
} options = { .seed = 1, .limits = { .kind = -1 } };

enum {
	OPT_HOSTS = 256,
	OPT_NICS,
	OPT_MESSAGES,
	OPT_ROUNDS,
	OPT_BYTES,
	OPT_FAULTS,
	OPT_PLAIN,
	OPT_TOGETHER,
	OPT_TURNS,
	OPT_BRIEF,
	OPT_STALLS,
	OPT_WINDOW,
	OPT_IB,
	OPT_KIND,
	OPT_FIRST,
	OPT_QUIET,
	OPT_NO_SHRINK,
	OPT_TWICE,
	OPT_SELFCHECK,
	OPT_CALLS,
	OPT_LIST,
	OPT_PROCESSOR,
	OPT_STOP,
	OPT_BOUNDS,
	OPT_DAYS
};

/* Llama 3: 54 days with 419 interruptions, of which 8.4 % were by the network. */
#define REPORT_DAYS   54
#define REPORT_FAULTS 35

#define FAULTS_LEAST 100 /* for --bounds to mean anything */

static const struct argp_option option_list[] = {
	{ "seed", 's', "N", 0, "Run this seed only", 0 },
	{ "seeds", 'n', "N", 0, "Run so many seeds", 0 },
	{ "first", OPT_FIRST, "N", 0, "Begin with this seed (1)", 0 },
	{ "seconds", 't', "S", 0, "Begin no further seed after so long", 0 },
	{ "processor-seconds", OPT_PROCESSOR, "S", 0, "Begin no further seed after so much time of processors", 0 },
	{ "stop", OPT_STOP, 0, 0, "Stop at the first failure", 0 },
	{ "jobs", 'j', "N", 0, "Seeds to run side by side (all processors)", 0 },
	{ "print", 'p', 0, 0, "Print the plan, the faults and the plugin's log", 0 },
	{ "table", 'T', 0, 0, "Print how long messages took, by the kind of fault", 0 },
	{ "bounds", OPT_BOUNDS, "P50,P99,MOST", 0, "Fail if the stalls of any kind of fault are longer, in ms", 0 },
	{ "twice", OPT_TWICE, 0, 0, "Run each seed twice: the traces must be the same", 0 },
	{ "no-shrink", OPT_NO_SHRINK, 0, 0, "Do not make failing runs smaller", 0 },
	{ "quiet", OPT_QUIET, "S", 0, "Two hosts, four messages a second for so long, no faults", 0 },
	{ "days", OPT_DAYS, "N", 0, "As many faults of the network as a large job meets in N days, on --hosts=64", 0 },
	{ "list", OPT_LIST, "FILE", 0, "Run the lines of a file: the options of a run each", 0 },
	{ "calls", OPT_CALLS, 0, 0, "Print the numbers of all that goes into the trace", 0 },
	{ "selfcheck", OPT_SELFCHECK, 0, 0, "Compare the simulated sockets with the kernel's; no PLUGIN", 0 },
	{ 0, 0, 0, 0, "What to take away from the runs:", 1 },
	{ "hosts", OPT_HOSTS, "N", 0, "At most so many hosts", 1 },
	{ "nics", OPT_NICS, "N", 0, "At most so many NICs in each host", 1 },
	{ "messages", OPT_MESSAGES, "N", 0, "At most so many messages over each edge", 1 },
	{ "rounds", OPT_ROUNDS, "N", 0, "At most so many rounds of connecting and closing", 1 },
	{ "bytes", OPT_BYTES, "N", 0, "At most so many bytes in a message", 1 },
	{ "faults", OPT_FAULTS, "MASK", 0, "Only these of the seed's faults", 1 },
	{ "kind", OPT_KIND, "NAME", 0, "Only faults of this kind", 1 },
	{ "plain", OPT_PLAIN, 0, 0, "Default settings, no tags", 1 },
	{ "window", OPT_WINDOW, 0, 0, "Ten minutes of a job with one fault of the network, as with --days", 1 },
	{ "ib", OPT_IB, 0, 0, "Hosts have RDMA NICs; needs VERBS", 1 },
	{ "turns", OPT_TURNS, 0, 0, "Only runs in which two paths fail in turn", 1 },
	{ "brief", OPT_BRIEF, 0, 0, "Only short faults, and time-outs of seconds, which none of them may reach", 1 },
	{ "stalls", OPT_STALLS, 0, 0, "Only faults of KIND, one after the other, with everything else in order", 1 },
	{ "together", OPT_TOGETHER, 0, 0, "Threads are not held up, reads and writes not cut short", 1 },
	{ 0 }
};

static int kind_of(const char *name)
{
	for (int i = 0; i < FAULT_KINDS; i++)
		if (!strcmp(name, fault_names[i]))
			return i;
	return -1;
}

static void take_limit(int key, const char *arg, struct argp_state *state)
{
	struct plan_limits *limits = &options.limits;
	uint64_t number = arg ? strtoull(arg, NULL, 0) : 0;

	switch (key) {
	case OPT_HOSTS:
		limits->hosts = (unsigned)number;
		break;
	case OPT_NICS:
		limits->nics = (unsigned)number;
		break;
	case OPT_MESSAGES:
		limits->messages = (unsigned)number;
		break;
	case OPT_ROUNDS:
		limits->rounds = (unsigned)number;
		break;
	case OPT_BYTES:
		limits->bytes = number;
		break;
	case OPT_FAULTS:
		limits->some_faults = true;
		limits->faults = number;
		break;
	case OPT_PLAIN:
		limits->plain = true;
		break;
	case OPT_TOGETHER:
		limits->together = true;
		break;
	case OPT_TURNS:
		limits->turns = true;
		break;
	case OPT_BRIEF:
		limits->brief = true;
		break;
	case OPT_STALLS:
		limits->stalls = true;
		break;
	case OPT_WINDOW:
		limits->window = true;
		break;
	case OPT_IB:
		limits->ib = true;
		break;
	default:
		limits->kind = kind_of(arg);
		if (limits->kind < 0)
			argp_error(state, "there is no fault '%s'", arg);
	}
}

static error_t take_option(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 's':
		options.one = true;
		options.seeds = 1;
		options.seed = strtoull(arg, NULL, 0);
		return 0;
	case 'n':
		options.seeds = strtoull(arg, NULL, 0);
		return 0;
	case OPT_FIRST:
		options.seed = strtoull(arg, NULL, 0);
		return 0;
	case 't':
		options.seconds = strtod(arg, NULL);
		return 0;
	case 'j':
		options.jobs = (unsigned)strtoul(arg, NULL, 0);
		return 0;
	case 'p':
		options.prints = true;
		return 0;
	case 'T':
		options.table = true;
		return 0;
	case OPT_TWICE:
		options.twice = true;
		return 0;
	case OPT_NO_SHRINK:
		options.shrinks = false;
		return 0;
	case OPT_PROCESSOR:
		options.processor_seconds = strtod(arg, NULL);
		return 0;
	case OPT_STOP:
		options.stops = true;
		return 0;
	case OPT_DAYS:
		options.days = strtod(arg, NULL);
		options.seeds = (uint64_t)(REPORT_FAULTS * options.days / REPORT_DAYS + 0.5);
		options.limits.window = true;
		return 0;
	case OPT_BOUNDS:
		if (sscanf(arg, "%lf,%lf,%lf", &options.bounds[0], &options.bounds[1], &options.bounds[2]) != 3)
			argp_error(state, "expected P50,P99,MOST");
		return 0;
	case OPT_LIST:
		options.list = arg;
		return 0;
	case OPT_CALLS:
		trace_prints = true;
		return 0;
	case OPT_SELFCHECK:
		options.selfcheck = true;
		return 0;
	case OPT_QUIET:
		options.limits.quiet_seconds = (unsigned)strtoul(arg, NULL, 0);
		return 0;
	case ARGP_KEY_ARG:
		if (options.plugin && options.verbs)
			return ARGP_ERR_UNKNOWN;
		*(options.plugin ? &options.verbs : &options.plugin) = arg;
		return 0;
	case ARGP_KEY_END:
		if ((!options.plugin && !options.selfcheck) || (options.limits.ib && !options.verbs))
			argp_usage(state);
		return 0;
	default:
		if (key < OPT_HOSTS || key > OPT_KIND)
			return ARGP_ERR_UNKNOWN;
		take_limit(key, arg, state);
		return 0;
	}
}

static const struct argp argp = { option_list, take_option, "PLUGIN [VERBS]",
				  "Run the plugin under virtual time. VERBS: the libibverbs of hosts with RDMA NICs.",
				  NULL, NULL, NULL };

/* --- many seeds --- */

static struct {
	uint64_t ended, failed, bytes, faults;
	double sim_s, lost_s; /* lost_s: latency_times.lost_ns */
	struct latency_times times[FAULT_KINDS + 1]; /* the last one: without faults */
} totals;

static double real_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add_times(const struct run_result *result)
{
	totals.lost_s += (double)result->times.lost_ns / 1e9;
	totals.faults += latency_count(&result->times.stalls);
	if (result->only_kind >= -1)
		latency_sum(&totals.times[result->only_kind < 0 ? FAULT_KINDS : result->only_kind], &result->times);
}

static void tell_failure(const struct run_result *result)
{
	struct plan_limits limits = options.limits;
	char command[300];

	printf("seed %" PRIu64 " fails %s\n", result->seed, result->text);
	if (options.shrinks)
		run_shrink(result->seed, &limits);
	run_command(result->seed, &limits, command, sizeof(command));
	printf("  again: simulate %s%s%s %s --print\n", options.plugin, options.verbs ? " " : "",
	       options.verbs ? options.verbs : "", command);
	fflush(stdout);
}

static void add_result(struct run_result *result)
{
	if (options.twice && !result->failed) {
		static struct run_result *again;

		if (!again)
			again = run_results(1);
		run_one(result->seed, &options.limits, again);
		if (again->trace != result->trace) {
			result->failed = true;
			snprintf(result->text, sizeof(result->text), "differently each time");
		}
	}
	totals.ended++;
	totals.failed += result->failed;
	totals.sim_s += (double)result->sim_ns / 1e9;
	totals.bytes += result->bytes;
	add_times(result);
	if (result->failed && totals.failed <= FAILURES_MAX)
		tell_failure(result);
}

/* Each line has the options of a run, and what the run found. */
static int run_listed(const char *file)
{
	struct run_result *result = run_results(1);
	char line[400];
	FILE *list = fopen(file, "r");

	while (list && fgets(line, sizeof(line), list)) {
		char *words[16] = { program_invocation_name, (char *)(uintptr_t)options.plugin }, *rest = line;
		int count = 2;

		line[strcspn(line, "#\n")] = 0;
		while (count < 16 && (words[count] = strtok_r(rest, " ", &rest)))
			count++;
		if (count == 2)
			continue;
		options.plugin = NULL;
		options.limits = (struct plan_limits){ .kind = -1 };
		argp_parse(&argp, count, words, 0, NULL, NULL);
		run_one(options.seed, &options.limits, result);
		add_result(result);
	}
	return list ? fclose(list) : -1;
}

static double processor_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static bool is_enough(double until)
{
	return (until > 0 && real_now() >= until) || (options.stops && totals.failed) ||
	       (options.processor_seconds > 0 && processor_seconds() >= options.processor_seconds);
}

static void run_many(double until)
{
	struct run_result *results = run_results(WORKERS_MAX);
	int pids[WORKERS_MAX] = { 0 }, status, pid;
	uint64_t next = options.seed, end = options.seed + options.seeds;
	unsigned running = 0;

	for (;;) {
		for (unsigned i = 0; i < options.jobs; i++)
			if (!pids[i] && next < end && !is_enough(until) &&
			    run_start(next, &options.limits, &results[i], &pids[i])) {
				next++;
				running++;
			}
		if (!running)
			return;
		pid = wait(&status);
		for (unsigned i = 0; i < options.jobs; i++)
			if (pids[i] == pid) {
				pids[i] = 0;
				running--;
				run_judge(&results[i], status);
				add_result(&results[i]);
			}
	}
}

static void print_table(void)
{
	printf("ms: p50, p99, p99.9, most\n%-8s %39s %39s %39s %9s\n", "", "from post to done",
	       "from the last fault's end on", "of each fault, the longest", "faults");
	for (int i = 0; i <= FAULT_KINDS; i++) {
		const struct latency_times *times = &totals.times[i];

		if (!times->all.most_ns)
			continue;
		printf("%-8s", i == FAULT_KINDS ? "none" : fault_names[i]);
		latency_print(&times->all);
		latency_print(&times->after);
		latency_print(&times->stalls);
		printf(" %9" PRIu64 "\n", latency_count(&times->stalls));
	}
}

static bool is_within_bounds(const struct latencies *stalls)
{
	return latency_quantile(stalls, 500) <= options.bounds[0] &&
	       latency_quantile(stalls, 990) <= options.bounds[1] &&
	       (double)stalls->most_ns / 1e6 <= options.bounds[2];
}

/* Nothing measured is no success. */
static bool are_within_bounds(void)
{
	if (options.bounds[2] <= 0)
		return true;
	if (totals.faults < FAULTS_LEAST) {
		printf("only %" PRIu64 " faults were measured\n", totals.faults);
		return false;
	}
	for (int i = 0; i < FAULT_KINDS; i++)
		if (!is_within_bounds(&totals.times[i].stalls)) {
			printf("the stalls of %s are longer than they may be:", fault_names[i]);
			latency_print(&totals.times[i].stalls);
			printf("\n");
			return false;
		}
	return true;
}

/* What was not simulated counts as if nothing had been lost. */
static void print_days(void)
{
	printf("%.0f days of %u hosts: %" PRIu64 " faults of the network, in windows of %.0f s; %" PRIu64
	       " communicators ended; %.1f s lost, goodput %.6f (%.4f of the windows)\n",
	       options.days, options.limits.hosts ? options.limits.hosts : PLAN_WINDOW_HOSTS, totals.faults,
	       (double)plan_window_ns() / 1e9, totals.failed, totals.lost_s, 1 - totals.lost_s / (options.days * 86400),
	       1 - totals.lost_s * 1e9 / (double)(totals.ended * plan_window_ns()));
}

static void print_one(void)
{
	static struct plan plan;

	plan_draw(&plan, options.seed, &options.limits);
	setvbuf(stdout, NULL, _IOLBF, 0);
	plan_print(&plan);
	rank_prints = true;
}

int main(int argc, char **argv)
{
	double start;

	options.shrinks = true;
	options.seeds = UINT64_MAX / 2;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return 2;
	if (options.selfcheck)
		return selfcheck() != 0;
	if (!options.jobs)
		options.jobs = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	if (options.jobs > WORKERS_MAX)
		options.jobs = WORKERS_MAX;
	if (!options.one && options.seeds == UINT64_MAX / 2 && options.seconds <= 0 && options.processor_seconds <= 0)
		options.seconds = 60;
	load_copies(options.plugin, options.limits.window ? COPIES_DAYS : COPIES);
	if (options.verbs)
		verbs_load(options.verbs, COPIES);
	if (options.one && options.prints)
		print_one();
	options.shrinks = options.shrinks && !options.prints;
	start = real_now();
	if (!options.list)
		run_many(options.seconds > 0 ? start + options.seconds : 0);
	else if (run_listed(options.list))
		return 2;
	if (options.table)
		print_table();
	if (options.days > 0)
		print_days();
	if (options.processor_seconds > 0 || options.table)
		printf("%.1f s of processors\n", processor_seconds());
	printf("simulate: %" PRIu64 " seeds, %.0f simulated s, %.1f s, %" PRIu64 " failed\n", totals.ended, totals.sim_s,
	       real_now() - start, totals.failed);
	return totals.failed || !are_within_bounds();
}
