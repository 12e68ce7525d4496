/* SPDX-License-Identifier: Apache-2.0 */
/* real_bench: real NCCL over this plugin and over its own nets. Command line and rounds. */
#include "real.h"

#include <argp.h>
#include <string.h>
#include <sys/stat.h>

#include "args.h"
#include "share.h"

static const char doc[] =
	"Runs real NCCL with all ranks on one GPU, everything between them over the network, and "
	"checks every result.\v"
	"SPEC is a plugin file, or builtin for NCCL's own nets, with environment settings in front: "
	"\"NCCL_NET=IB build/release/libnccl-net.so\", \"NCCL_NET=Socket builtin\". Tests are "
	"all_reduce, all_gather, reduce_scatter, broadcast, alltoall, sendrecv, measured for all "
	"sizes, and groups, splits, comms, registered, reinit, abort, killed. LISTs are separated by commas, sizes may end in "
	"K, M or G. Exit status: 0 good, 1 an error, 2 wrong results.";

enum {
	KEY_NCCL = 0x100,
	KEY_API,
	KEY_CUDART,
	KEY_CSV,
	KEY_CUT,
	KEY_LOGS,
	KEY_LIMIT,
	KEY_DRY_RUN,
	KEY_ROUNDS
};

static const struct argp_option options[] = {
	{ "net", 'N', "SPEC", 0, "a net to use; give it once for every net", 0 },
	{ "tests", 't', "LIST", 0, "only these tests", 0 },
	{ "ranks", 'r', "N", 0, "ranks (2)", 0 },
	{ "minbytes", 'b', "SIZE", 0, "smallest size (8)", 0 },
	{ "maxbytes", 'e', "SIZE", 0, "largest size (256M)", 0 },
	{ "stepfactor", 'f', "N", 0, "factor between sizes (4)", 0 },
	{ "iters", 'n', "N", 0, "calls that are timed (20)", 0 },
	{ "warmup_iters", 'w', "N", 0, "calls before (5)", 0 },
	{ "rounds", KEY_ROUNDS, "N", 0, "rounds in which all nets take their turn (1)", 0 },
	{ "device", 'd', "N", 0, "the GPU (0)", 0 },
	{ "cut", KEY_CUT, "MS", 0,
	  "each rank shuts a connection of the plugin, at random, about so often", 0 },
	{ "limit", KEY_LIMIT, "S", 0, "seconds without progress that are too many (120)", 0 },
	{ "logs", KEY_LOGS, "DIR", 0, "directory for NCCL's logs, which must exist (.)", 0 },
	{ "csv", KEY_CSV, "FILE", 0, "append every round's numbers to FILE", 0 },
	{ "dry-run", KEY_DRY_RUN, NULL, 0, "only look at the command line", 0 },
	{ "api", KEY_API, "N", 0, "the newest net API in the plugin's file (all that there are)",
	  0 },
	{ "nccl", KEY_NCCL, "FILE", 0, "the libnccl to use", 0 },
	{ "cudart", KEY_CUDART, "FILE", 0, "the CUDA runtime to use", 0 },
	{ 0 },
};

static void parse_tests(struct argp_state *state, struct real_options *opts, char *text)
{
	opts->tests = 0;
	for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
		int i = 0;

		while (i < real_test_count && strcmp(word, real_tests[i].name))
			i++;
		if (i == real_test_count)
			argp_error(state, "'%s' is not a test", word);
		opts->tests |= 1u << i;
	}
}

static void parse_net(struct argp_state *state, struct real_options *opts, const char *text)
{
	struct real_net *net = &opts->nets[opts->net_count];

	if (opts->net_count == REAL_NETS_MAX)
		argp_error(state, "at most %d nets", REAL_NETS_MAX);
	*net = (struct real_net){ .text = text, .spec = net_spec(text) };
	net->builtin = !strcmp(net->spec, "builtin");
	opts->net_count++;
}

static void finish(struct argp_state *state, const struct real_options *opts)
{
	struct stat info;

	if (!opts->net_count)
		argp_error(state, "give at least one --net");
	if (opts->bytes_max < opts->bytes_min)
		argp_error(state, "the largest size is below the smallest");
	if (stat(opts->logs, &info) || !S_ISDIR(info.st_mode))
		argp_error(state, "--logs '%s' is no directory", opts->logs);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct real_options *opts = state->input;

	switch (key) {
	case 'N':
		parse_net(state, opts, arg);
		break;
	case 't':
		parse_tests(state, opts, arg);
		break;
	case 'r':
		opts->ranks = (int)args_number(state, "--ranks", arg, 1, REAL_RANKS_MAX);
		break;
	case 'b':
		opts->bytes_min =
			(size_t)args_size(state, "--minbytes", arg, REAL_BYTES_MIN, REAL_BYTES_MAX);
		break;
	case 'e':
		opts->bytes_max =
			(size_t)args_size(state, "--maxbytes", arg, REAL_BYTES_MIN, REAL_BYTES_MAX);
		break;
	case 'f':
		opts->factor = (int)args_number(state, "--stepfactor", arg, 2, 1 << 20);
		break;
	case 'n':
		opts->iterations = (int)args_number(state, "--iters", arg, 1, 1000000);
		break;
	case 'w':
		opts->warmups = (int)args_number(state, "--warmup_iters", arg, 0, 1000000);
		break;
	case KEY_ROUNDS:
		opts->rounds = (int)args_number(state, "--rounds", arg, 1, REAL_ROUNDS_MAX);
		break;
	case 'd':
		opts->device = (int)args_number(state, "--device", arg, 0, 255);
		break;
	case KEY_CUT:
		opts->cut_ms = (int)args_number(state, "--cut", arg, 1, 3600000);
		break;
	case KEY_API:
		opts->api_newest = (int)args_number(state, "--api", arg, 5, 99);
		break;
	case KEY_LIMIT:
		opts->limit_s = (int)args_number(state, "--limit", arg, 1, 86400);
		break;
	case KEY_DRY_RUN:
		opts->dry_run = true;
		break;
	case KEY_LOGS:
		opts->logs = arg;
		break;
	case KEY_CSV:
		opts->csv = csv_open(state, arg);
		break;
	case KEY_NCCL:
		opts->nccl = arg;
		break;
	case KEY_CUDART:
		opts->cudart = arg;
		break;
	case ARGP_KEY_END:
		finish(state, opts);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static bool was_skipped(const struct real_area *area)
{
	for (int i = 0; i < real_test_count; i++) {
		if (real_tests[i].alone && !strncmp(area->notes[i], "SKIP", 4))
			return true;
	}
	return false;
}

static int run_session(const struct real_options *opts, struct results *results, int net, int round,
		       unsigned tests)
{
	const struct real_session which = { net, round, tests };
	const struct real_area *area;
	struct group g;
	int result;

	if (!tests)
		return GROUP_OK;
	printf("#\n# net %d: %s, round %d of %d\n", net, opts->nets[net].text, round + 1,
	       opts->rounds);
	fflush(stdout);
	result = session_run(&g, opts, &which);
	if (!g.shared)
		return GROUP_ERROR;
	area = g.area;
	if (area->nccl_version)
		printf("# NCCL %d from %s\n", area->nccl_version, area->nccl_path);
	print_rows(area, opts->ranks);
	if (result == GROUP_OK)
		results_add(results, net, round, area);
	if (result != GROUP_ERROR && !was_skipped(area) &&
	    proof_check(opts, &which, area->nccl_version))
		result = GROUP_ERROR;
	group_destroy(&g);
	return result;
}

/* Runs all tests in one session, except the scenes that need their own. */
static int run_net(const struct real_options *opts, struct results *results, int net, int round)
{
	unsigned together = opts->tests;
	int result = GROUP_OK;

	for (int i = 0; i < real_test_count; i++)
		together &= ~((unsigned)real_tests[i].alone << i);
	result = run_session(opts, results, net, round, together);
	for (int i = 0; i < real_test_count; i++) {
		unsigned one = opts->tests & 1u << i & ~together;

		result = group_worse(result, run_session(opts, results, net, round, one));
	}
	return result;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, doc, NULL, NULL, NULL };
	struct real_options opts = { .ranks = 2,
				     .bytes_min = 8,
				     .bytes_max = (size_t)256 << 20,
				     .factor = 4,
				     .iterations = 20,
				     .warmups = 5,
				     .rounds = 1,
				     .limit_s = 120,
				     .logs = ".",
				     .tests = ~0u };
	struct results *results;
	int worst = GROUP_OK;

	argp_err_exit_status = 1;
	argp_parse(&argp, argc, argv, 0, NULL, &opts);
	if (opts.dry_run)
		return GROUP_OK;
	results = results_create(&opts);
	if (!results)
		return GROUP_ERROR;
	print_head(&opts);
	for (int round = 0; round < opts.rounds; round++) {
		for (int net = 0; net < opts.net_count; net++)
			worst = group_worse(worst, run_net(&opts, results, net, round));
	}
	if (worst == GROUP_OK)
		results_print(results);
	printf("# %s\n", worst == GROUP_OK      ? "all results are right"
			 : worst == GROUP_WRONG ? "WRONG RESULTS"
						: "ended by an error");
	results_destroy(results);
	if (opts.csv)
		fclose(opts.csv);
	return worst;
}
