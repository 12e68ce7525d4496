/* SPDX-License-Identifier: Apache-2.0 */
/* anynet cluster: the command line. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conduct.h"
#include "files.h"
#include "judge.h"
#include "launcher.h"
#include "live.h"
#include "matrix.h"
#include "node.h"
#include "print.h"
#include "tools/pair/control.h"
#include "tools/pair/measure_args.h"
#include "tools/shared/args.h"
#include "tools/shared/document.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/output_args.h"
#include "tools/shared/self.h"
#include "tools/shared/shell.h"
#include "tools/shared/terminal.h"
#include "worker.h"

enum {
	KEY_HOSTS = 0x100,
	KEY_HOSTS_FILE,
	KEY_SSH,
	KEY_REMOTE,
	KEY_RENDEZVOUS,
	KEY_NODES,
	KEY_WAIT,
	KEY_NET,
	KEY_PORT,
	KEY_SAVE,
	KEY_HTML,
	KEY_BASELINE,
	KEY_WORKER,
	KEY_LIVE,
	KEY_EVERY,
	KEY_FOR
};

struct cluster_arguments {
	struct conduct_options conduct;
	struct worker_options worker;
	struct remote remote;
	struct rendezvous rendezvous;
	char rendezvous_host[ARGS_HOST];
	struct node *nodes; /* HOSTS_MAX entries */
	size_t count;
	bool json, is_worker, is_live;
	struct live_options live;
	const char *net, *save, *html;
	json_t *baseline;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The hosts, by ssh:", 1 },
	{ "hosts", KEY_HOSTS, "A,B,...", 0, "hosts to log in to; may be repeated", 1 },
	{ "hosts-file", KEY_HOSTS_FILE, "FILE", 0,
	  "file with hosts, one per line; # begins a "
	  "comment",
	  1 },
	{ "ssh", KEY_SSH, "COMMAND", 0, "command to log in (ssh -o BatchMode=yes)", 1 },
	{ "remote", KEY_REMOTE, "COMMAND", 0,
	  "command that runs this tool there, as its shell reads it: variables may precede it "
	  "(the path of this tool)",
	  1 },
	{ NULL, 0, NULL, 0, "Hosts started by a launcher, this command on each:", 2 },
	{ "rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0,
	  "rendezvous address; HOST coordinates the run", 2 },
	{ "nodes", KEY_NODES, "N", 0, "number of hosts (default: from torchrun or Slurm)", 2 },
	{ NULL, 0, NULL, 0, "What is measured:", 3 },
	{ "seconds", KEY_SECONDS, "S", 0,
	  "duration limit of each bandwidth run, up to 10; 0 = no bandwidth (0.5)", 3 },
	{ "bytes", KEY_BYTES, "MB", 0,
	  "data limit of each bandwidth run in MB, up to 65536 "
	  "(1024)",
	  3 },
	{ "streams", KEY_STREAMS, "N", 0, "simultaneous connections of the plugin, 1 to 16 (4)",
	  3 },
	{ "dev", KEY_DEV, "N", 0, "device of the net, on all hosts (0)", 3 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 3 },
	{ "port", KEY_PORT, "PORT", 0,
	  "port on which each host waits for the others (one of ANYNET_PORT_RANGE, or any)", 3 },
	{ "wait", KEY_WAIT, "S", 0, "time to wait for hosts (60)", 3 },
	{ "live", KEY_LIVE, NULL, 0,
	  "measure nothing; watch the jobs on the hosts, and name the rank or path that delays them",
	  3 },
	{ "every", KEY_EVERY, "S", 0, "with --live: seconds between two looks (1)", 3 },
	{ "for", KEY_FOR, "S", 0, "with --live: end after so many seconds (never)", 3 },
	{ NULL, 0, NULL, 0, "Output:", 4 },
	{ "json", 'j', NULL, 0, "print JSON", 4 },
	{ "save", KEY_SAVE, "FILE", 0, "also write the JSON to a file", 4 },
	{ "html", KEY_HTML, "FILE", 0, "write a page with heat maps", 4 },
	{ "baseline", KEY_BASELINE, "FILE", 0, "compare with a file from --save", 4 },
	{ "worker", KEY_WORKER, NULL, OPTION_HIDDEN, "", 5 },
	{ 0 },
};

/* --- hosts --- */

static void add_host(struct argp_state *state, struct cluster_arguments *a, const char *name)
{
	if (!host_name_is_good(name))
		argp_error(state, "'%s' is not a host name", name);
	for (size_t i = 0; i < a->count; i++) {
		if (!strcmp(a->nodes[i].name, name))
			argp_error(state, "host '%s' is named twice", name);
	}
	if (a->count == HOSTS_MAX)
		argp_error(state, "more than %d hosts", HOSTS_MAX);
	snprintf(a->nodes[a->count++].name, HOST_NAME, "%s", name);
}

static void add_hosts(struct argp_state *state, struct cluster_arguments *a, char *text,
		      const char *separators)
{
	char *name;

	while ((name = strsep(&text, separators))) {
		if (*name)
			add_host(state, a, name);
	}
}

static void add_hosts_file(struct argp_state *state, struct cluster_arguments *a, const char *path)
{
	size_t bytes;
	char *text = files_read(path, &bytes), *next = text, *line;

	if (!text)
		argp_error(state, "--hosts-file %s: it cannot be read", path);
	while ((line = strsep(&next, "\n"))) {
		line[strcspn(line, "#")] = '\0';
		add_hosts(state, a, line, " \t\r");
	}
	free(text);
}

/* --- arguments --- */

static error_t parse_measure(int key, char *arg, struct argp_state *state,
			     struct cluster_arguments *a)
{
	switch (key) {
	case KEY_NET:
		a->net = arg;
		return 0;
	case KEY_PORT:
		a->worker.port = (int)args_number(state, "--port", arg, 1024, 65535);
		return 0;
	case KEY_WAIT:
		a->rendezvous.wait_ms = 1000 * (int)args_number(state, "--wait", arg, 1, 3600);
		return 0;
	default:
		return measure_parse(key, arg, state, &a->conduct.measure);
	}
}

static void check(struct argp_state *state, const struct cluster_arguments *a)
{
	if (a->is_worker)
		return;
	if (!a->count == !a->rendezvous.host)
		argp_error(state, "give --hosts or --rendezvous");
	if (a->count == 1)
		argp_error(state, "give at least two hosts");
	if (a->rendezvous.host && a->rendezvous.nodes < 2)
		argp_error(state,
			   "--nodes: give the number of hosts, 2 to %d, that come to "
			   "--rendezvous",
			   HOSTS_MAX);
	if (!a->remote.ssh[strspn(a->remote.ssh, " \t")])
		argp_error(state, "--ssh: expected a command");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cluster_arguments *a = state->input;

	switch (key) {
	case KEY_HOSTS:
		add_hosts(state, a, arg, ",");
		return 0;
	case KEY_HOSTS_FILE:
		add_hosts_file(state, a, arg);
		return 0;
	case KEY_SSH:
		a->remote.ssh = arg;
		return 0;
	case KEY_REMOTE:
		a->remote.command = arg;
		return 0;
	case KEY_RENDEZVOUS:
		a->rendezvous.port = 0;
		args_host(state, arg, a->rendezvous_host, 1, &a->rendezvous.port);
		if (!a->rendezvous.port)
			argp_error(state, "--rendezvous '%s': expected HOST:PORT", arg);
		a->rendezvous.host = a->rendezvous_host;
		return 0;
	case KEY_NODES:
		a->rendezvous.nodes = (size_t)args_number(state, "--nodes", arg, 2, HOSTS_MAX);
		return 0;
	case 'j':
		a->json = true;
		return 0;
	case KEY_SAVE:
		a->save = arg;
		return 0;
	case KEY_HTML:
		a->html = arg;
		return 0;
	case KEY_BASELINE:
		a->baseline = files_baseline(state, arg);
		a->conduct.before = a->baseline;
		return 0;
	case KEY_LIVE:
		a->is_live = true;
		return 0;
	case KEY_EVERY:
		a->live.every = (double)args_number(state, "--every", arg, 1, 3600);
		return 0;
	case KEY_FOR:
		a->live.during = (double)args_number(state, "--for", arg, 1, INT_MAX / 1000);
		return 0;
	case KEY_WORKER:
		a->is_worker = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option", arg);
		return 0;
	case ARGP_KEY_END:
		check(state, a);
		return 0;
	default:
		return parse_measure(key, arg, state, a);
	}
}

/* --- remote command --- */

/* Returns the command line for the remote shell, or NULL if out of memory. The caller frees it. */
static char *make_command(const struct cluster_arguments *a)
{
	char *self = shell_quoted(*self_path() ? self_path() : "anynet"), *command, port[16] = "";
	char *net = shell_quoted(a->net ? a->net : "");

	if (a->worker.port)
		snprintf(port, sizeof(port), " --port %d", a->worker.port);
	if (!self || !net ||
	    asprintf(&command, "%s cluster --worker%s%s%s",
		     a->remote.command ? a->remote.command : self, port, a->net ? " --net " : "",
		     a->net ? net : "") < 0)
		command = NULL;
	free(self);
	free(net);
	return command;
}

/* --- output --- */

static int write_file(const char *path, const json_t *doc, bool html)
{
	FILE *file = fopen(path, "w");
	bool bad = !file;

	if (file && html)
		cluster_html(doc, file);
	else if (file)
		bad = json_dumpf(doc, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) < 0;
	if (file)
		bad = (ferror(file) | fclose(file)) || bad;
	if (bad)
		fprintf(stderr, "anynet cluster: %s cannot be written: %s\n", path,
			strerror(errno));
	return bad ? 2 : 0;
}

static int report(const struct cluster_arguments *a, json_t *doc)
{
	json_t *findings = judge(doc, a->baseline);
	struct terminal terminal = terminal_of(stdout);
	int status = findings_status(findings), wrote = 0;

	json_object_set_new(doc, "findings", findings);
	json_object_set_new(doc, "status", json_integer(status));
	if (a->json) {
		document_print("cluster", json_incref(doc), stdout);
	} else {
		cluster_print(doc, stdout, &terminal);
	}
	if (a->save)
		wrote |= write_file(a->save, doc, false);
	if (a->html)
		wrote |= write_file(a->html, doc, true);
	json_decref(doc);
	return wrote ? 2 : status;
}

static int run_all(struct cluster_arguments *a)
{
	if (!a->is_live)
		return report(a, conduct(a->nodes, a->count, &a->conduct));
	a->live.json = a->json;
	return live_run(a->nodes, a->count, &a->live);
}

static int run_by_ssh(struct cluster_arguments *a)
{
	char *command = make_command(a);

	if (!command) {
		fprintf(stderr, "anynet cluster: out of memory\n");
		return 2;
	}
	a->remote.command = command;
	nodes_login(a->nodes, a->count, &a->remote, a->rendezvous.wait_ms);
	free(command);
	return run_all(a);
}

static int run_by_launcher(struct cluster_arguments *a)
{
	char why[CONTROL_TEXT];
	int listener;

	/* Only one process of each host takes part. */
	if (launcher_local_rank() > 0)
		return 0;
	listener = rendezvous_open(&a->rendezvous, why);
	if (listener == -2) {
		fprintf(stderr, "anynet cluster: %s\n", why);
		return 2;
	}
	if (listener < 0)
		return rendezvous_join(&a->rendezvous, &a->worker);
	a->count = a->rendezvous.nodes;
	rendezvous_wait(listener, &a->rendezvous, &a->worker, a->nodes);
	close(listener);
	return run_all(a);
}

int cmd_cluster(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measures all pairs of hosts in rounds in which each host is in one pair: path, "
		"latency, bandwidth and lost packets. Compares versions, settings, devices, "
		"clocks and the launcher's variables. Reports the hosts and pairs with "
		"problems. With --live: watches running jobs, and names the rank or path "
		"that delays them.\vExit status: 0 ok, 1 warnings, 2 errors, 3 invalid arguments.",
		.children = output_args,
	};
	static struct node nodes[HOSTS_MAX];
	struct cluster_arguments a = {
		.conduct = {
			.measure = { .streams = 4, .bytes = 1024000000, .ms = 500 },
			.terminal = isatty(STDERR_FILENO),
		},
		.remote = { .ssh = "ssh -o BatchMode=yes" },
		.rendezvous = { .wait_ms = 60000, .nodes = (size_t)launcher_hosts() },
		.nodes = nodes,
		.live = { .every = 1 },
	};
	int status;

	for (size_t i = 0; i < HOSTS_MAX; i++)
		nodes[i] = (struct node){ .fd = -1, .errors = -1 };
	argp_err_exit_status = ARGS_WRONG;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	signal(SIGPIPE, SIG_IGN);
	a.worker.plugin = a.net ? a.net : self_plugin();
	if (a.is_worker)
		return worker_run_stdio(&a.worker);
	status = a.count ? run_by_ssh(&a) : run_by_launcher(&a);
	json_decref(a.baseline);
	return status;
}
