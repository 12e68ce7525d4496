/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the launcher: ranks and sizes must be consistent, and the master reachable. */
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "plugin/config_names.h"

#define AREA       "launcher"
#define NAME_BYTES 64

/* The variables of one launcher. NULL = the launcher has no such variable. */
struct launcher {
	const char *name;
	const char *rank, *size, *local_rank, *local_size, *node, *nodes;
};

static const struct launcher launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
	  "GROUP_WORLD_SIZE" },
	{ "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
	  "SLURM_NODEID", "SLURM_NNODES" },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
	  "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL },
	{ "MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL },
};

/* Variables that are often set by hand, and the values of those that accept only some words ("a|b"). */
static const struct {
	const char *name, *words;
} by_hand[] = {
	{ "MASTER_ADDR", NULL },
	{ "MASTER_PORT", NULL },
	{ "WORLD_SIZE", NULL },
	{ "LOCAL_RANK", NULL },
	{ "LOCAL_WORLD_SIZE", NULL },
	{ "NODE_RANK", NULL },
	{ "GLOO_SOCKET_IFNAME", NULL },
	{ "TP_SOCKET_IFNAME", NULL },
	{ "TORCH_DISTRIBUTED_DEBUG", "OFF|INFO|DETAIL" },
	{ "TORCH_CPP_LOG_LEVEL", "INFO|WARNING|ERROR|FATAL|0|1|2|3" },
	{ "CUDA_VISIBLE_DEVICES", NULL },
	{ "CUDA_DEVICE_ORDER", "FASTEST_FIRST|PCI_BUS_ID" },
};

static bool is_word_of(const char *words, const char *value)
{
	for (size_t bytes = strlen(value); *words; words += strcspn(words, "|")) {
		words += *words == '|';
		if (strcspn(words, "|") == bytes && !strncasecmp(words, value, bytes))
			return true;
	}
	return false;
}

static void check_words(struct check *check)
{
	for (size_t i = 0; i < ARRAY_SIZE(by_hand); i++) {
		const char *value = host_env(by_hand[i].name);

		if (!value || !by_hand[i].words || is_word_of(by_hand[i].words, value))
			continue;
		finding_add(&check->report, CHECK_WARN, AREA, "bad-value", "%s=%s is not accepted",
			    by_hand[i].name, value);
		finding_why(&check->report, "it is ignored, or the program ends with an error");
		finding_fix(&check->report, "set it to one of %s, or unset it", by_hand[i].words);
	}
}

/* Finds names with one letter added, missing, changed or swapped, in the wrong case, or
 * MASTER_ADDRESS. Skips names whose correct variable is set as well. */
static void check_typo(struct check *check, const char *entry)
{
	char name[NAME_BYTES];
	size_t bytes = strcspn(entry, "=");

	if (!entry[bytes] || bytes >= sizeof(name))
		return;
	memcpy(name, entry, bytes);
	name[bytes] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(by_hand); i++) {
		const char *meant = by_hand[i].name;

		if (getenv(meant) ||
		    (anynet_name_distance(name, meant) > 1 &&
		     (strcmp(name, "MASTER_ADDRESS") || strcmp(meant, "MASTER_ADDR"))))
			continue;
		finding_add(&check->report, CHECK_WARN, AREA, "unknown-name",
			    "%s: no known launcher or PyTorch version reads a variable of this "
			    "name",
			    entry);
		finding_why(&check->report, "it has no effect; perhaps %s is meant", meant);
		finding_fix(&check->report, "export %s=%s; unset %s", meant, entry + bytes + 1,
			    name);
	}
}

static void check_by_hand(struct check *check)
{
	for (char *const *entry = environ; entry && *entry; entry++)
		check_typo(check, *entry);
	check_words(check);
}

/* Returns a variable's value; -1 = not set, or not a number, which is reported. */
static long number(struct check *check, const char *name)
{
	const char *value = name ? host_env(name) : NULL;
	char *end;
	long result;

	if (!value)
		return -1;
	errno = 0;
	result = strtol(value, &end, 10);
	if (end != value && !*end && !errno && result >= 0 && result <= INT_MAX)
		return result;
	finding_add(&check->report, CHECK_ERROR, AREA, "no-number", "%s=%s is not a number from 0",
		    name, value);
	finding_fix(&check->report, "let the launcher set it, or set it to a number");
	return -1;
}

static struct layout read_layout(struct check *check, const struct launcher *launcher)
{
	struct layout layout = {
		.rank = number(check, launcher->rank),
		.size = number(check, launcher->size),
		.local_rank = number(check, launcher->local_rank),
		.local_size = number(check, launcher->local_size),
		.node = number(check, launcher->node),
		.nodes = number(check, launcher->nodes),
	};

	return layout;
}

static void check_ranks(struct check *check, const struct launcher *launcher,
			const struct layout *layout)
{
	if (layout->rank >= 0 && layout->size >= 0 && layout->rank >= layout->size) {
		finding_add(&check->report, CHECK_ERROR, AREA, "rank-too-large",
			    "%s=%ld with %s=%ld: ranks count from 0 to %ld", launcher->rank,
			    layout->rank, launcher->size, layout->size, layout->size - 1);
		finding_why(&check->report, "NCCL fails with \"Invalid rank requested : %ld/%ld\"",
			    layout->rank, layout->size);
		finding_fix(&check->report,
			    "set %s to hosts times processes per host on every host, or let the "
			    "launcher set both",
			    launcher->size);
	}
	if (layout->local_rank >= 0 && layout->local_size >= 0 &&
	    layout->local_rank >= layout->local_size) {
		finding_add(&check->report, CHECK_ERROR, AREA, "local-rank-too-large",
			    "%s=%ld with %s=%ld", launcher->local_rank, layout->local_rank,
			    launcher->local_size, layout->local_size);
		finding_why(&check->report, "the rank would use a GPU that does not belong to "
					    "this job");
		finding_fix(&check->report, "let the launcher set both");
	}
}

/* Checks the layout used by hand-written scripts and Lightning: the same number of processes on
 * each host, in order. Launchers with other layouts set all variables themselves. */
static void check_world(struct check *check, const struct launcher *launcher,
			const struct layout *layout)
{
	long needed;

	if (host_env("TORCHELASTIC_RUN_ID") || layout->local_size <= 0 || layout->size < 0 ||
	    layout->node < 0)
		return;
	needed = (layout->nodes > layout->node ? layout->nodes : layout->node + 1) *
		 layout->local_size;
	if (layout->node * layout->local_size >= layout->size ||
	    (layout->nodes > 0 && needed > layout->size)) {
		finding_add(&check->report, CHECK_ERROR, AREA, "world-too-small",
			    "%s=%ld, but host %ld with %ld processes on each host requires at "
			    "least %ld",
			    launcher->size, layout->size, layout->node, layout->local_size, needed);
		finding_why(&check->report,
			    "ranks of this host are outside the world: \"Invalid rank requested "
			    ": %ld/%ld\", or two processes have the same rank",
			    needed - 1, layout->size);
		finding_fix(&check->report, "export %s=%ld on every host", launcher->size, needed);
	} else if (layout->rank >= 0 && layout->local_rank >= 0 &&
		   layout->rank != layout->node * layout->local_size + layout->local_rank) {
		finding_add(&check->report, CHECK_WARN, AREA, "rank-layout",
			    "%s=%ld, but host %ld, local rank %ld and %ld processes on each host "
			    "result in %ld",
			    launcher->rank, layout->rank, layout->node, layout->local_rank,
			    layout->local_size,
			    layout->node * layout->local_size + layout->local_rank);
		finding_why(&check->report, "two processes may have the same rank or GPU");
		finding_fix(&check->report,
			    "check the node's number and the processes per host, or let the "
			    "launcher set them all");
	}
}

/* Compares PyTorch's variables with those of the launcher that started it. */
static void check_against(struct check *check, const struct layout *torch,
			  const struct launcher *launcher, const struct layout *other)
{
	if (torch->size < 0 || other->size <= 1)
		return;
	if (torch->size == other->size && torch->rank >= 0 && other->rank >= 0 &&
	    torch->rank != other->rank) {
		finding_add(&check->report, CHECK_WARN, AREA, "launchers-differ",
			    "RANK=%ld, but %s=%ld", torch->rank, launcher->rank, other->rank);
		finding_why(&check->report, "a RANK that is left over from another job gives two "
					    "processes the same rank");
		finding_fix(&check->report, "unset RANK, or set it from %s", launcher->rank);
	} else if (torch->size < other->size) {
		finding_add(&check->report, CHECK_WARN, AREA, "launchers-differ",
			    "WORLD_SIZE=%ld, but %s has started %ld processes (%s)", torch->size,
			    launcher->name, other->size, launcher->size);
		finding_why(&check->report,
			    "ranks from %ld on are outside the world: \"Invalid rank requested\"",
			    torch->size);
		finding_fix(&check->report, "unset WORLD_SIZE, or export WORLD_SIZE=$%s",
			    launcher->size);
	}
}

/* init_method="env://" requires all four. */
static void check_complete(struct check *check)
{
	static const char *const needed[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
	struct text_list missing = { 0 };
	char *names;

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!host_env(needed[i]))
			text_list_add(&missing, text_copy(needed[i], strlen(needed[i])));
	}
	names = text_list_join(&missing, ARRAY_SIZE(needed));
	if (host_env("RANK") && missing.count) {
		finding_add(&check->report, CHECK_WARN, AREA, "incomplete",
			    "RANK is set, but not %s", names);
		finding_why(&check->report, "PyTorch's env:// needs all of them");
		finding_fix(&check->report, "set them on every rank, or start with torchrun");
	}
	free(names);
	text_list_free(&missing);
}

static void report_layout(struct check *check, const struct launcher *launcher,
			  const struct layout *layout)
{
	if (layout->rank >= 0 && layout->rank < layout->size)
		finding_add(&check->report, CHECK_OK, AREA, "layout", "%s: rank %ld of %ld",
			    launcher->name, layout->rank, layout->size);
}

void check_launcher(struct check *check)
{
	struct layout torch = { 0 }, layout;
	size_t before = check->report.count;
	long node;

	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++) {
		layout = read_layout(check, &launchers[i]);
		if (!i) {
			/* Lightning and older launchers use this name. */
			node = number(check, "NODE_RANK");
			if (layout.node < 0)
				layout.node = node;
			torch = layout;
			check_world(check, &launchers[i], &layout);
		} else {
			check_against(check, &torch, &launchers[i], &layout);
		}
		report_layout(check, &launchers[i], &layout);
		check_ranks(check, &launchers[i], &layout);
	}
	check_complete(check);
	check_by_hand(check);
	check_master(check, &torch);
	if (check->report.count == before)
		finding_add(&check->report, CHECK_NOTE, AREA, "launcher-none",
			    "no variables of torchrun, Slurm or MPI are set: run this inside a "
			    "job to check them");
}
