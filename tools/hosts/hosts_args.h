/* SPDX-License-Identifier: Apache-2.0 */
/* The options that say which hosts take part and how their workers are started: a child of a command's argp. */
#ifndef HOSTS_HOSTS_ARGS_H
#define HOSTS_HOSTS_ARGS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#include "node.h"
#include "tools/shared/args.h"

struct hosts_options { /* the input of hosts_argp */
	struct node *nodes;
	size_t count;
	bool is_listed; /* --hosts or --hosts-file is given */
	struct remote remote;
	struct rendezvous rendezvous;
	char rendezvous_host[ARGS_HOST];
	bool is_worker; /* started by ssh, by another process of this command */
};

/* Its options are in groups 7 and 8. */
extern const struct argp hosts_argp;

/* Sets what is not given: no hosts, and the launcher's number of nodes. */
void hosts_default(struct hosts_options *o);

/* Whether the command line names hosts. */
bool hosts_are_given(const struct hosts_options *o);

/*
 * Starts the workers, whose nodes are then in `o`, and returns -1. Or returns the exit status, if this process was a
 * worker or cannot take part. `words` follows the name of this program in the command line of a worker that ssh starts.
 */
int hosts_start(struct hosts_options *o, const char *words, const struct worker_options *own);

#endif
