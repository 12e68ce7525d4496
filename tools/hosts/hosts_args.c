/* SPDX-License-Identifier: Apache-2.0 */
/* Options that name hosts; see hosts_args.h. */
#include "hosts_args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"
#include "tools/shared/judge/compare.h"

enum {
	KEY_HOSTS = 0x200,
	KEY_HOSTS_FILE,
	KEY_SSH,
	KEY_REMOTE,
	KEY_RENDEZVOUS,
	KEY_NODES,
	KEY_WAIT,
	KEY_WORKER
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The hosts, by ssh:", 7 },
	{ "hosts", KEY_HOSTS, "A,B,...", 0, "hosts to log in to; may be repeated", 7 },
	{ "hosts-file", KEY_HOSTS_FILE, "FILE", 0,
	  "file with hosts, one per line; # begins a "
	  "comment",
	  7 },
	{ "ssh", KEY_SSH, "COMMAND", 0, "command to log in (ssh -o BatchMode=yes)", 7 },
	{ "remote", KEY_REMOTE, "COMMAND", 0,
	  "command that runs this tool there, as its shell reads it: variables may precede it "
	  "(the path of this tool)",
	  7 },
	{ NULL, 0, NULL, 0, "Hosts started by a launcher, this command on each:", 8 },
	{ "rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0,
	  "rendezvous address; the process on HOST is the coordinator", 8 },
	{ "nodes", KEY_NODES, "N", 0, "number of hosts (default: from torchrun or Slurm)", 8 },
	{ "wait", KEY_WAIT, "S", 0, "time to wait for hosts (60)", 8 },
	{ "worker", KEY_WORKER, NULL, OPTION_HIDDEN, "", 8 },
	{ 0 },
};

static void add_host(struct argp_state *state, struct hosts_options *o, const char *name)
{
	if (!host_name_is_good(name))
		argp_error(state, "'%s' is not a host name", name);
	for (size_t i = 0; i < o->count; i++) {
		if (!strcmp(o->nodes[i].name, name))
			argp_error(state, "host '%s' is named twice", name);
	}
	if (o->count == HOSTS_MAX)
		argp_error(state, "more than %d hosts", HOSTS_MAX);
	snprintf(o->nodes[o->count++].name, HOST_NAME, "%s", name);
}

static void add_hosts(struct argp_state *state, struct hosts_options *o, char *text,
		      const char *separators)
{
	char *name;

	while ((name = strsep(&text, separators))) {
		if (*name)
			add_host(state, o, name);
	}
}

static void add_hosts_file(struct argp_state *state, struct hosts_options *o, const char *path)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) >= 0) {
		line[strcspn(line, "#")] = '\0';
		add_hosts(state, o, line, " \t\r\n");
	}
	free(line);
	if (!file || ferror(file))
		argp_error(state, "--hosts-file %s: %s", path, strerror(errno));
	fclose(file);
}

static void parse_rendezvous(struct argp_state *state, struct hosts_options *o, const char *text)
{
	o->rendezvous.port = 0;
	args_host(state, text, o->rendezvous_host, 1, &o->rendezvous.port);
	if (!o->rendezvous.port)
		argp_error(state, "--rendezvous '%s': expected HOST:PORT", text);
	o->rendezvous.host = o->rendezvous_host;
}

static void check(struct argp_state *state, const struct hosts_options *o)
{
	if (o->is_worker)
		return;
	if (o->is_listed && o->rendezvous.host)
		argp_error(state, "give --hosts or --rendezvous, not both");
	if (o->is_listed && o->count < 2)
		argp_error(state, "give at least two hosts");
	if (o->rendezvous.host && o->rendezvous.nodes < 2)
		argp_error(state,
			   "--nodes: give the number of hosts, 2 to %d, that come to "
			   "--rendezvous",
			   HOSTS_MAX);
	if (!o->remote.ssh[strspn(o->remote.ssh, " \t")])
		argp_error(state, "--ssh: expected a command");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct hosts_options *o = state->input;

	switch (key) {
	case KEY_HOSTS:
		o->is_listed = true;
		add_hosts(state, o, arg, ",");
		return 0;
	case KEY_HOSTS_FILE:
		o->is_listed = true;
		add_hosts_file(state, o, arg);
		return 0;
	case KEY_SSH:
		o->remote.ssh = arg;
		return 0;
	case KEY_REMOTE:
		o->remote.command = arg;
		return 0;
	case KEY_RENDEZVOUS:
		parse_rendezvous(state, o, arg);
		return 0;
	case KEY_NODES:
		o->rendezvous.nodes = (size_t)args_number(state, "--nodes", arg, 2, HOSTS_MAX);
		return 0;
	case KEY_WAIT:
		o->rendezvous.wait_ms = 1000 * (int)args_number(state, "--wait", arg, 1, 3600);
		return 0;
	case KEY_WORKER:
		o->is_worker = true;
		return 0;
	case ARGP_KEY_END:
		check(state, o);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp hosts_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };

void hosts_default(struct hosts_options *o)
{
	static struct node nodes[HOSTS_MAX];

	for (size_t i = 0; i < HOSTS_MAX; i++)
		nodes[i] = (struct node){ .fd = -1, .errors = -1 };
	*o = (struct hosts_options){
		.nodes = nodes,
		.remote = { .ssh = "ssh -o BatchMode=yes" },
		.rendezvous = { .wait_ms = 60000, .nodes = (size_t)launcher_hosts() },
	};
}

bool hosts_are_given(const struct hosts_options *o)
{
	return o->is_listed || o->rendezvous.host;
}
