/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the workers of a run, or is one; see hosts_args.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "hosts_args.h"
#include "launcher.h"
#include "tools/pair/control.h"
#include "tools/shared/shell.h"

static void start_by_ssh(struct hosts_options *o, const char *words,
			 const struct worker_options *own)
{
	const char *remote = o->remote.command;

	if (!remote)
		remote = shell_quoted(*own->self ? own->self : "anynet");
	nodes_login(o->nodes, o->count,
		    &(struct remote){ o->remote.ssh, text_format("%s %s", remote, words) },
		    o->rendezvous.wait_ms);
}

static int start_by_launcher(struct hosts_options *o, const struct worker_options *own)
{
	char why[CONTROL_TEXT];
	int listener;

	/* Only one process of each host takes part. */
	if (launcher_local_rank() > 0)
		return 0;
	listener = rendezvous_open(&o->rendezvous, why);
	if (listener == -ENOENT) {
		fprintf(stderr, "%s: %s\n", own->who, why);
		return 2;
	}
	if (listener < 0)
		return rendezvous_join(&o->rendezvous, own);
	o->count = o->rendezvous.nodes;
	rendezvous_wait(listener, &o->rendezvous, own, o->nodes);
	close(listener);
	return -1;
}

int hosts_start(struct hosts_options *o, const char *words, const struct worker_options *own)
{
	signal(SIGPIPE, SIG_IGN);
	if (o->is_worker)
		return worker_run_stdio(own);
	if (!o->count)
		return start_by_launcher(o, own);
	start_by_ssh(o, words, own);
	return -1;
}
