/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: on this host, or on several. */
#include "tools/shared/commands.h"

#include <stdio.h>

#include "perf_args.h"
#include "perf_coordinator.h"
#include "perf_worker.h"
#include "tools/shared/self.h"
#include "tools/shared/shell.h"
#include "tools/shared/status.h"

/* Returns what a worker that ssh starts is given. */
static char *worker_words(const struct perf_options *o)
{
	return text_format("perf --worker %s%s%s", perf_words(o), o->spec ? " --net " : "",
			   o->spec ? shell_quoted(o->spec) : "");
}

/* Returns the exit status of a worker, or -1 with the result of the run. */
static int run_on_hosts(struct perf_arguments *a, int *result)
{
	char *words = worker_words(&a->perf);
	struct perf_options own = a->perf;
	struct worker_options worker = perf_worker(&own, self_path());
	int status;

	if (!own.spec)
		own.spec = self_plugin();
	status = hosts_start(&a->hosts, words, &worker);
	if (status < 0)
		*result = perf_coordinate(a->hosts.nodes, a->hosts.count, &a->perf);
	return status;
}

int cmd_perf(int argc, char **argv)
{
	static struct perf_arguments a;
	int result, status;

	perf_parse(argc, argv, &a);
	if (hosts_are_given(&a.hosts) || a.hosts.is_worker) {
		status = run_on_hosts(&a, &result);
		if (status >= 0)
			return status;
	} else {
		if (!a.perf.spec)
			a.perf.spec = self_plugin();
		result = perf_run(&a.perf, 0, -1);
	}
	if (result == GROUP_WRONG)
		fprintf(stderr, "anynet perf: WRONG RESULTS\n");
	return result == GROUP_OK ? STATUS_OK : STATUS_ERROR;
}
