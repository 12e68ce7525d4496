/* SPDX-License-Identifier: Apache-2.0 */
/* net_bench: measures nets side by side. Command line, and description of the machine. */
#include "bench.h"

#include <argp.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "args.h"

#define BUSY_LOAD 0.3 /* load per core above which results are unreliable */

static const struct bench_figure *const figures[] = {
	&bench_lat, &bench_bw, &bench_rate, &bench_connect, &bench_unauthenticated,
};
#define FIGURES ((int)(sizeof(figures) / sizeof(figures[0])))

struct arguments {
	struct bench_options opts;
	bool wanted[FIGURES];
};

static const char doc[] =
	"Measures nets side by side: FIGURE is lat, bw, rate, connect or unauthenticated.\v"
	"SPEC is a plugin file, nccl:Socket or nccl:IB (of the first usable libnccl.so.2; "
	"nccl:Socket:PATH names one), with environment settings in front of it: "
	"\"ANYNET_IO_THREADS=1 build/release/libnccl-net.so\". Ratios are first net / other net, the median over the rounds. "
	"LISTs are separated by commas, sizes may end in K or M.";

enum {
	KEY_NETNS = 0x100,
	KEY_IFNAME,
	KEY_CSV,
	KEY_QUICK,
	KEY_CPUS,
	KEY_ABI,
	KEY_WINDOW,
	KEY_WAYS
};

static const struct argp_option options[] = {
	{ "net", 'n', "SPEC", 0, "a net to measure; give it once for every net", 0 },
	{ "sizes", 's', "LIST", 0, "message sizes", 0 },
	{ "comms", 'c', "LIST", 0, "numbers of comms", 0 },
	{ "ways", KEY_WAYS, "1|2", 0, "only one way, or only both ways", 0 },
	{ "rounds", 'r', "N", 0, "rounds; the median is printed (5)", 0 },
	{ "window", KEY_WINDOW, "MS", 0, "time of a bandwidth measurement (400)", 0 },
	{ "quick", KEY_QUICK, NULL, 0, "fewer iterations, 3 rounds, short windows", 0 },
	{ "cpus", KEY_CPUS, "A,B", 0, "cores of the ends (0,1 where there are two; -1 = any)", 0 },
	{ "ifname", KEY_IFNAME, "NAME", 0, "NCCL_SOCKET_IFNAME for all nets (lo)", 0 },
	{ "netns", KEY_NETNS, "A,B", 0, "network namespaces of the ends", 0 },
	{ "dev", 'd', "A[,B]", 0, "devices of the ends (0)", 0 },
	{ "abi", KEY_ABI, "N", 0, "net API version of plugins (the newest)", 0 },
	{ "csv", KEY_CSV, "FILE", 0, "append every round's numbers to FILE", 0 },
	{ 0 },
};

static int parse_list(struct argp_state *state, const char *what, char *text, long max, long *list)
{
	int count = 0;

	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		if (count == BENCH_LIST_MAX)
			argp_error(state, "%s: at most %d of them", what, BENCH_LIST_MAX);
		list[count++] = args_size(state, what, word, 1, max);
	}
	return count;
}

static void parse_figure(struct argp_state *state, struct arguments *args, char *text)
{
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		bool known = false;

		for (int i = 0; i < FIGURES; i++) {
			bool match = !strcmp(word, figures[i]->name) || !strcmp(word, "all");

			known |= match;
			args->wanted[i] |= match;
		}
		if (!known)
			argp_error(state, "'%s' is not a figure", word);
	}
}

static void parse_net(struct argp_state *state, struct bench_options *opts, const char *text)
{
	if (opts->net_count == BENCH_NETS_MAX)
		argp_error(state, "at most %d nets", BENCH_NETS_MAX);
	opts->nets[opts->net_count++] = (struct bench_net){
		.text = text,
		.spec = net_spec(text),
	};
}

static void parse_cpus(struct argp_state *state, struct bench_options *opts, char *text)
{
	char *second = strchr(text, ',');

	if (!second)
		argp_error(state, "--cpus '%s': expected two cores, as in 0,1", text);
	*second++ = '\0';
	opts->cpus[0] = (int)args_number(state, "--cpus", text, -1, CPU_SETSIZE - 1);
	opts->cpus[1] = (int)args_number(state, "--cpus", second, -1, CPU_SETSIZE - 1);
}

static void parse_devs(struct argp_state *state, struct bench_options *opts, char *text)
{
	char *second = strchr(text, ',');

	if (second)
		*second++ = '\0';
	opts->devs[0] = (int)args_number(state, "--dev", text, 0, 255);
	opts->devs[1] = second ? (int)args_number(state, "--dev", second, 0, 255) : opts->devs[0];
}

static void parse_netns(struct argp_state *state, struct bench_options *opts, char *text)
{
	char *second = strchr(text, ',');

	if (!second)
		argp_error(state, "--netns '%s': expected two names, as in a,b", text);
	*second++ = '\0';
	opts->netns[0] = text;
	opts->netns[1] = second;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;
	struct bench_options *opts = &args->opts;

	switch (key) {
	case 'n':
		parse_net(state, opts, arg);
		break;
	case 's':
		opts->size_count = parse_list(state, "--sizes", arg, 1L << 30, opts->sizes);
		break;
	case 'c':
		opts->comms_count = parse_list(state, "--comms", arg, BENCH_COMMS_MAX, opts->comms);
		break;
	case KEY_WAYS:
		opts->ways = (int)args_number(state, "--ways", arg, 1, 2);
		break;
	case 'r':
		opts->rounds = (int)args_number(state, "--rounds", arg, 1, BENCH_ROUNDS_MAX);
		break;
	case KEY_WINDOW:
		opts->window_ms = (int)args_number(state, "--window", arg, 10, 60000);
		break;
	case KEY_QUICK:
		opts->quick = true;
		break;
	case KEY_CPUS:
		parse_cpus(state, opts, arg);
		break;
	case KEY_IFNAME:
		opts->ifname = arg;
		break;
	case KEY_NETNS:
		parse_netns(state, opts, arg);
		break;
	case 'd':
		parse_devs(state, opts, arg);
		break;
	case KEY_ABI:
		opts->abi = (int)args_number(state, "--abi", arg, 5, 12);
		break;
	case KEY_CSV:
		opts->csv = csv_open(state, arg);
		break;
	case ARGP_KEY_ARG:
		parse_figure(state, args, arg);
		break;
	case ARGP_KEY_END:
		if (!state->arg_num || !opts->net_count)
			argp_error(state, "give at least one figure and one --net");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static void print_cpu_model(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	char line[300];

	while (file && fgets(line, sizeof(line), file)) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, "model name", 10) || !colon)
			continue;
		printf("%.*s, ", (int)strcspn(colon + 2, "\n"), colon + 2);
		break;
	}
	if (file)
		fclose(file);
}

static void print_machine(const struct bench_options *opts)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct utsname system;
	double load = 0;

	uname(&system);
	printf("# ");
	print_cpu_model();
	printf("%ld cores, %s %s; ends on cores %d and %d; interface %s\n", cores, system.sysname,
	       system.release, opts->cpus[0], opts->cpus[1], opts->ifname[0] ? opts->ifname : "-");
	if (getloadavg(&load, 1) == 1 && load > BUSY_LOAD * (double)cores)
		printf("# WARNING: load average is %.2f: other programs run, numbers will be off\n",
		       load);
}

int main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, "FIGURE...", doc, NULL, NULL, NULL };
	struct arguments args = { .opts = { .rounds = 0, .ifname = "lo", .cpus = { 0, 1 } } };
	int worst = GROUP_OK;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		args.opts.cpus[0] = args.opts.cpus[1] = -1;
	argp_err_exit_status = 1;
	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (!args.opts.rounds)
		args.opts.rounds = args.opts.quick ? 3 : 5;
	if (!args.opts.window_ms)
		args.opts.window_ms = args.opts.quick ? 150 : 400;
	print_machine(&args.opts);
	for (int i = 0; i < FIGURES; i++) {
		if (args.wanted[i] && bench_run(figures[i], &args.opts))
			worst = GROUP_ERROR;
	}
	if (args.opts.csv)
		fclose(args.opts.csv);
	return worst;
}
