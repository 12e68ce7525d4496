/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the launcher: ranks and sizes must be consistent, and the master reachable. */
#include "check.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plugin/config_names.h"

#include "variables.h"

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

static void check_words(struct check *check)
{
	for (size_t i = 0; i < ARRAY_SIZE(by_hand); i++) {
		const char *value = host_env(by_hand[i].name);

		if (!value || !by_hand[i].words || variable_is_word(by_hand[i].words, value))
			continue;
		found(check, CHECK_WARN, "bad-value", "%s=%s is not accepted", by_hand[i].name,
		      value);
		found_why(check, "it is ignored, or the program ends with an error");
		found_fix(check, "set it to one of %s, or unset it", by_hand[i].words);
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
		found(check, CHECK_WARN, "unknown-name",
		      "%s: no known launcher or PyTorch version reads a variable of this name",
		      entry);
		found_why(check, "it has no effect; perhaps %s is meant", meant);
		found_fix(check, "export %s=%s; unset %s", meant, entry + bytes + 1, name);
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
	found(check, CHECK_ERROR, "no-number", "%s=%s is not a number from 0", name, value);
	found_fix(check, "let the launcher set it, or set it to a number");
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
		found(check, CHECK_ERROR, "rank-too-large",
		      "%s=%ld with %s=%ld: ranks count from 0 to %ld", launcher->rank, layout->rank,
		      launcher->size, layout->size, layout->size - 1);
		found_why(check, "NCCL fails with \"Invalid rank requested : %ld/%ld\"",
			  layout->rank, layout->size);
		found_fix(check,
			  "set %s to hosts times processes per host on every host, or let the "
			  "launcher set both",
			  launcher->size);
	}
	if (layout->local_rank >= 0 && layout->local_size >= 0 &&
	    layout->local_rank >= layout->local_size) {
		found(check, CHECK_ERROR, "local-rank-too-large", "%s=%ld with %s=%ld",
		      launcher->local_rank, layout->local_rank, launcher->local_size,
		      layout->local_size);
		found_why(check, "the rank would use a GPU that does not belong to this job");
		found_fix(check, "let the launcher set both");
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
		found(check, CHECK_ERROR, "world-too-small",
		      "%s=%ld, but host %ld with %ld processes on each host requires at least %ld",
		      launcher->size, layout->size, layout->node, layout->local_size, needed);
		found_why(check,
			  "ranks of this host are outside the world: \"Invalid rank requested : "
			  "%ld/%ld\", or two processes have the same rank",
			  needed - 1, layout->size);
		found_fix(check, "export %s=%ld on every host", launcher->size, needed);
	} else if (layout->rank >= 0 && layout->local_rank >= 0 &&
		   layout->rank != layout->node * layout->local_size + layout->local_rank) {
		found(check, CHECK_WARN, "rank-layout",
		      "%s=%ld, but host %ld, local rank %ld and %ld processes on each host result "
		      "in %ld",
		      launcher->rank, layout->rank, layout->node, layout->local_rank,
		      layout->local_size, layout->node * layout->local_size + layout->local_rank);
		found_why(check, "two processes may have the same rank or GPU");
		found_fix(check, "check the node's number and the processes per host, or let the "
				 "launcher set them all");
	}
}

/* Compares PyTorch's variables with those of the launcher that started it. torchrun assigns ranks of its own. */
static void check_against(struct check *check, const struct layout *torch,
			  const struct launcher *launcher, const struct layout *other)
{
	if (host_env("TORCHELASTIC_RUN_ID") || torch->size < 0 || other->size <= 1)
		return;
	if (torch->size == other->size && torch->rank >= 0 && other->rank >= 0 &&
	    torch->rank != other->rank) {
		found(check, CHECK_WARN, "launchers-differ", "RANK=%ld, but %s=%ld", torch->rank,
		      launcher->rank, other->rank);
		found_why(check, "a RANK that is left over from another job gives two processes "
				 "the same rank");
		found_fix(check, "unset RANK, or set it from %s", launcher->rank);
	} else if (torch->size < other->size) {
		found(check, CHECK_WARN, "launchers-differ",
		      "WORLD_SIZE=%ld, but %s has started %ld processes (%s)", torch->size,
		      launcher->name, other->size, launcher->size);
		found_why(check,
			  "ranks from %ld on are outside the world: \"Invalid rank requested\"",
			  torch->size);
		found_fix(check, "unset WORLD_SIZE, or export WORLD_SIZE=$%s", launcher->size);
	}
}

/* init_method="env://" requires all four. */
static void check_complete(struct check *check)
{
	static const char *const needed[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
	struct text_list missing = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		if (!host_env(needed[i]))
			text_list_add(&missing, needed[i]);
	}
	if (host_env("RANK") && missing.count) {
		found(check, CHECK_WARN, "incomplete", "RANK is set, but not %s",
		      text_list_join(&missing, ARRAY_SIZE(needed)));
		found_why(check, "PyTorch's env:// needs all of them");
		found_fix(check, "set them on every rank, or start with torchrun");
	}
}

static void report_layout(struct check *check, const struct launcher *launcher,
			  const struct layout *layout)
{
	if (layout->rank >= 0 && layout->rank < layout->size)
		found(check, CHECK_OK, "layout", "%s: rank %ld of %ld", launcher->name,
		      layout->rank, layout->size);
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
		found(check, CHECK_NOTE, "launcher-none",
		      "no variables of torchrun, Slurm or MPI are set: run this inside a job to "
		      "check them");
}
