/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of launchers; see launcher.h. */
#include "launcher.h"

#include <stdlib.h>

#include <nccl_net/util.h>

#include "tools/shared/judge/compare.h"

#define VALUE_MAX 200 /* bytes; longer values are ignored */

const struct launcher_variable launcher_variables[] = {
	{ "WORLD_SIZE", LAUNCHER_SAME },
	{ "GROUP_WORLD_SIZE", LAUNCHER_SAME },
	{ "MASTER_ADDR", LAUNCHER_SAME },
	{ "MASTER_PORT", LAUNCHER_SAME },
	{ "SLURM_JOB_ID", LAUNCHER_SAME },
	{ "SLURM_NTASKS", LAUNCHER_SAME },
	{ "SLURM_NNODES", LAUNCHER_SAME },
	{ "OMPI_COMM_WORLD_SIZE", LAUNCHER_SAME },
	{ "PMI_SIZE", LAUNCHER_SAME },
	{ "LOCAL_WORLD_SIZE", LAUNCHER_MOST },
	{ "OMPI_COMM_WORLD_LOCAL_SIZE", LAUNCHER_MOST },
	{ "RANK", LAUNCHER_OWN },
	{ "GROUP_RANK", LAUNCHER_OWN },
	{ "NODE_RANK", LAUNCHER_OWN },
	{ "SLURM_PROCID", LAUNCHER_OWN },
	{ "SLURM_NODEID", LAUNCHER_OWN },
	{ "OMPI_COMM_WORLD_RANK", LAUNCHER_OWN },
	{ "PMI_RANK", LAUNCHER_OWN },
};
const size_t launcher_variable_count = ARRAY_SIZE(launcher_variables);

json_t *launcher_gather(void)
{
	json_t *found = json_object();

	for (size_t i = 0; i < launcher_variable_count; i++) {
		const char *value = getenv(launcher_variables[i].name);
		json_t *text = value ? json_string(value) : NULL;

		if (text && json_string_length(text) <= VALUE_MAX)
			json_object_set(found, launcher_variables[i].name, text);
		json_decref(text);
	}
	return found;
}

/* Returns the first variable that is a number from `least` to `most`, or `missing`. */
static int first_number(const char *const *names, size_t count, int least, int most, int missing)
{
	for (size_t i = 0; i < count; i++) {
		const char *value = getenv(names[i]);
		char *end;
		long number = value ? strtol(value, &end, 10) : 0;

		if (value && end != value && !*end && number >= least && number <= most)
			return (int)number;
	}
	return missing;
}

int launcher_local_rank(void)
{
	static const char *const names[] = { "LOCAL_RANK", "SLURM_LOCALID",
					     "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID" };

	return first_number(names, ARRAY_SIZE(names), 0, INT32_MAX, 0);
}

int launcher_hosts(void)
{
	static const char *const names[] = { "GROUP_WORLD_SIZE", "SLURM_NNODES" };

	return first_number(names, ARRAY_SIZE(names), 1, HOSTS_MAX, 0);
}
