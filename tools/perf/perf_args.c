/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the command line. Short options are those of nccl-tests. */
#include "perf_args.h"

#include <argp.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/args.h"
#include "tools/shared/text.h"

#define BYTES_MAX    (16LL << 30)
#define DEADLINE_MAX 86400
#define COUNT_MAX    1000000

enum {
	KEY_NET = 0x100,
	KEY_ABI,
	KEY_DEV,
	KEY_CHANNELS,
	KEY_JSON,
	KEY_CSV,
	KEY_DEADLINE
};

static const struct argp_option options[] = {
	{ "pattern", 'p', "NAME", 0,
	  "all_gather, all_reduce, alltoall, broadcast, gather, hypercube, reduce, reduce_scatter, "
	  "scatter or sendrecv (all_reduce)",
	  1 },
	{ "ranks", 'r', "N", 0, "processes on each host (2, or 1 with several hosts)", 1 },
	{ "channels", KEY_CHANNELS, "N", 0, "rings of patterns with sums (2)", 1 },
	{ "minbytes", 'b', "BYTES", 0, "smallest size (8)", 2 },
	{ "maxbytes", 'e', "BYTES", 0, "largest size (32M, or the smallest if that is larger)", 2 },
	{ "stepfactor", 'f', "N", 0, "multiply the size by N from line to line (2)", 2 },
	{ "stepbytes", 'i', "BYTES", 0, "add BYTES from line to line instead", 2 },
	{ "iters", 'n', "N", 0, "timed operations per size (20)", 3 },
	{ "warmup_iters", 'w', "N", 0, "operations before the timed ones (2)", 3 },
	{ "check", 'c', "0|1", 0, "check every element of one more operation (1)", 3 },
	{ "datatype", 'd', "TYPE", 0, "float or int32 (float)", 3 },
	{ "net", KEY_NET, "SPEC", 0,
	  "plugin file, or nccl:Socket or nccl:IB for NCCL's own, nccl:Socket:PATH with the "
	  "libnccl.so.2 of your choice (libnccl-net.so beside this tool, or on the library search path)",
	  4 },
	{ "abi", KEY_ABI, "N", 0, "net API version of the plugin, 5 to 12 (the newest)", 4 },
	{ "dev", KEY_DEV, "N", 0, "device of the net (0)", 4 },
	{ "deadline", KEY_DEADLINE, "S", 0, "give up after S seconds without progress (60)", 5 },
	{ NULL, 0, NULL, 0, "Output:", 9 },
	{ "json", KEY_JSON, NULL, 0, "print JSON", 9 },
	{ "csv", KEY_CSV, NULL, 0, "print CSV", 9 },
	{ 0 },
};

static const char doc[] =
	"Measures collectives between processes of this host, or of several hosts, over any NCCL "
	"net, the way NCCL's proxy drives it. Every result is checked."
	"\vBYTES may end in K, M or G. Times are those of the slowest rank; algbw and busbw are "
	"computed as in nccl-tests. The net's warnings are shown; NCCL_DEBUG=INFO shows more. "
	"Exit status: 0 ok, 2 an error or wrong results, 3 invalid arguments.";

static enum perf_type parse_type(struct argp_state *state, const char *text)
{
	if (strcmp(text, "float") != 0 && strcmp(text, "int32") != 0)
		argp_error(state, "type '%s': expected float or int32", text);
	return strcmp(text, "int32") ? PERF_FLOAT : PERF_INT32;
}

static void check_sizes(struct argp_state *state, struct perf_options *o)
{
	if (!o->max_bytes)
		o->max_bytes = o->min_bytes > (size_t)32 << 20 ? o->min_bytes : (size_t)32 << 20;
	if (o->max_bytes < o->min_bytes)
		argp_error(state, "-e %zu is smaller than -b %zu", o->max_bytes, o->min_bytes);
}

static void check_ranks(struct argp_state *state, struct perf_arguments *a)
{
	struct perf_options *o = &a->perf;
	size_t hosts = a->hosts.count ? a->hosts.count : 1;

	if (a->hosts.rendezvous.host)
		hosts = a->hosts.rendezvous.nodes;
	if (!o->here)
		o->here = hosts_are_given(&a->hosts) ? 1 : 2;
	if (hosts * (size_t)o->here > PERF_RANKS_MAX)
		argp_error(state, "%zu hosts with %d ranks each: more than %d ranks", hosts,
			   o->here, PERF_RANKS_MAX);
	o->ranks = (int)hosts * o->here;
	if (o->pattern->is_of_two && !perf_is_of_two(o->ranks) && !a->hosts.is_worker)
		argp_error(state, "%s: the number of ranks has to be a power of two, not %d",
			   o->pattern->name, o->ranks);
}

/* The options with a number, and where it goes. */
static const struct number {
	int key;
	const char *what;
	size_t at; /* offset in struct perf_options */
	long long least, most;
} numbers[] = {
	{ 'r', "--ranks", offsetof(struct perf_options, here), 1, GROUP_MAX },
	{ KEY_CHANNELS, "--channels", offsetof(struct perf_options, channels), 1,
	  PERF_CHANNELS_MAX },
	{ 'f', "-f", offsetof(struct perf_options, factor), 2, 1024 },
	{ 'n', "-n", offsetof(struct perf_options, iterations), 1, COUNT_MAX },
	{ 'w', "-w", offsetof(struct perf_options, warmups), 0, COUNT_MAX },
	{ 'c', "-c", offsetof(struct perf_options, check), 0, 1 },
	{ KEY_ABI, "--abi", offsetof(struct perf_options, abi), 5, 12 },
	{ KEY_DEV, "--dev", offsetof(struct perf_options, dev), 0, 255 },
	{ KEY_DEADLINE, "--deadline", offsetof(struct perf_options, deadline_s), 1, DEADLINE_MAX },
};

static bool parse_number(int key, const char *arg, struct argp_state *state, struct perf_options *o)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct number *n = &numbers[i];

		if (n->key != key)
			continue;
		*(int *)(void *)((char *)o + n->at) =
			(int)args_number(state, n->what, arg, n->least, n->most);
		return true;
	}
	return false;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct perf_arguments *a = state->input;
	struct perf_options *o = &a->perf;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &a->hosts;
		break;
	case 'p':
		o->pattern = perf_pattern_of(arg);
		if (!o->pattern)
			argp_error(state, "unknown pattern '%s'; --help lists them", arg);
		break;
	case 'b':
		o->min_bytes = (size_t)args_size(state, "-b", arg, 1, BYTES_MAX);
		break;
	case 'e':
		o->max_bytes = (size_t)args_size(state, "-e", arg, 1, BYTES_MAX);
		break;
	case 'i':
		o->step_bytes = (size_t)args_size(state, "-i", arg, 1, BYTES_MAX);
		break;
	case 'd':
		o->type = parse_type(state, arg);
		break;
	case KEY_NET:
		o->spec = arg;
		break;
	case KEY_JSON:
		o->format = PERF_JSON;
		break;
	case KEY_CSV:
		o->format = PERF_CSV;
		break;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option", arg);
		break;
	case ARGP_KEY_END:
		check_sizes(state, o);
		check_ranks(state, a);
		break;
	default:
		return parse_number(key, arg, state, o) ? 0 : ARGP_ERR_UNKNOWN;
	}
	return 0;
}

bool perf_is_of_two(int ranks)
{
	return !(ranks & (ranks - 1));
}

/* A precision of 0 prints nothing for 0. */
char *perf_words(const struct perf_options *o)
{
	return text_format("--pattern %s --ranks %d --channels %d -b %zu -e %zu -f %d%s%.0zu "
			   "-n %d -w %d -c %d -d %s%s%.0d --dev %d --deadline %d",
			   o->pattern->name, o->here, o->channels, o->min_bytes, o->max_bytes,
			   o->factor, o->step_bytes ? " -i " : "", o->step_bytes, o->iterations,
			   o->warmups, o->check, o->type == PERF_INT32 ? "int32" : "float",
			   o->abi ? " --abi " : "", o->abi, o->dev, o->deadline_s);
}

void perf_parse(int argc, char **argv, struct perf_arguments *a)
{
	static const struct argp_child children[] = {
		{ &hosts_argp, 0, NULL, 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = doc,
		.children = children,
	};

	a->perf = (struct perf_options){
		.pattern = perf_pattern_of("all_reduce"),
		.channels = 2,
		.min_bytes = 8,
		.factor = 2,
		.iterations = 20,
		.warmups = 2,
		.check = true,
		.deadline_s = 60,
	};
	hosts_default(&a->hosts);
	argp_parse(&argp, argc, argv, 0, NULL, a);
}
