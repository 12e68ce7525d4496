/* SPDX-License-Identifier: Apache-2.0 */
/* anynet cluster: the command line. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator.h"
#include "judge.h"
#include "live.h"
#include "matrix.h"
#include "print.h"
#include "tools/hosts/hosts_args.h"
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
	KEY_NET = 0x100,
	KEY_PORT,
	KEY_SAVE,
	KEY_HTML,
	KEY_BASELINE,
	KEY_LIVE,
	KEY_EVERY,
	KEY_FOR
};

#define CHILD_HOSTS 0 /* index of hosts_argp among the children */

struct cluster_arguments {
	struct coordinator_options coordinator;
	struct cluster_worker worker;
	struct hosts_options hosts;
	bool is_live;
	struct live_options live;
	const char *net, *save, *html;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What is measured:", 9 },
	{ "seconds", KEY_SECONDS, "S", 0,
	  "duration limit of each bandwidth run, up to 10; 0 = no bandwidth (0.5)", 9 },
	{ "bytes", KEY_BYTES, "MB", 0,
	  "data limit of each bandwidth run in MB, up to 65536 "
	  "(1024)",
	  9 },
	{ "streams", KEY_STREAMS, "N", 0, "simultaneous connections of the plugin, 1 to 16 (4)",
	  9 },
	{ "dev", KEY_DEV, "N", 0, "device of the net, on all hosts (0)", 9 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 9 },
	{ "port", KEY_PORT, "PORT", 0,
	  "port on which each host waits for the others (one of ANYNET_PORT_RANGE, or any)", 9 },
	{ "live", KEY_LIVE, NULL, 0,
	  "measure nothing; watch the jobs on the hosts, and name the rank or path that delays them",
	  9 },
	{ "every", KEY_EVERY, "S", 0, "with --live: seconds between two looks (1)", 9 },
	{ "for", KEY_FOR, "S", 0, "with --live: end after so many seconds (never)", 9 },
	{ NULL, 0, NULL, 0, "Output:", 10 },
	{ "save", KEY_SAVE, "FILE", 0, "also write the JSON to a file", 10 },
	{ "html", KEY_HTML, "FILE", 0, "write a page with heat maps", 10 },
	{ "baseline", KEY_BASELINE, "FILE", 0, "compare with a file from --save", 10 },
	{ 0 },
};

/* --- arguments --- */

/* Returns an earlier run, without the parts that are not compared. Exits with an error if it is not valid. */
static json_t *read_baseline(struct argp_state *state, const char *path)
{
	json_error_t error;
	json_t *doc = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
	const char *why = error.text;
	struct matrix m;
	json_t *link;
	size_t i;

	if (!doc || matrix_read(doc, &m, &why))
		argp_error(state, "--baseline %s: %s", path, why);
	/* Not compared, and most of the document. */
	json_array_foreach (json_object_get(doc, "links"), i, link)
		json_object_del(link, "measured");
	return doc;
}

static error_t parse_measure(int key, char *arg, struct argp_state *state,
			     struct cluster_arguments *a)
{
	switch (key) {
	case KEY_NET:
		a->net = arg;
		return 0;
	case KEY_PORT:
		a->worker.port = (int)args_number(state, "--port", arg, JOIN_PORT_MIN, 65535);
		return 0;
	default:
		return measure_parse(key, arg, state, &a->coordinator.measure);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct cluster_arguments *a = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[CHILD_HOSTS] = &a->hosts;
		return 0;
	case KEY_SAVE:
		a->save = arg;
		return 0;
	case KEY_HTML:
		a->html = arg;
		return 0;
	case KEY_BASELINE:
		a->coordinator.before = read_baseline(state, arg);
		return 0;
	case KEY_LIVE:
		a->is_live = true;
		return 0;
	case KEY_EVERY:
		a->live.every = (int)args_number(state, "--every", arg, 1, 3600);
		return 0;
	case KEY_FOR:
		a->live.during = (int)args_number(state, "--for", arg, 1, INT_MAX / 1000);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option", arg);
		return 0;
	case ARGP_KEY_END:
		if (!hosts_are_given(&a->hosts) && !a->hosts.is_worker)
			argp_error(state, "give --hosts or --rendezvous");
		return 0;
	default:
		return parse_measure(key, arg, state, a);
	}
}

/* Returns what a worker that ssh starts is given. */
static char *worker_words(const struct cluster_arguments *a)
{
	return text_format("cluster --worker%s%s%s",
			   a->worker.port ? text_format(" --port %d", a->worker.port) : "",
			   a->net ? " --net " : "", a->net ? shell_quoted(a->net) : "");
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
	json_t *findings = judge(doc, a->coordinator.before);
	struct terminal terminal = terminal_of(stdout);
	int status = findings_status(findings), wrote = 0;

	json_object_set_new(doc, "findings", findings);
	json_object_set_new(doc, "status", json_integer(status));
	if (output_is_json()) {
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
		return report(a, coordinate(a->hosts.nodes, a->hosts.count, &a->coordinator));
	return live_run(a->hosts.nodes, a->hosts.count, &a->live);
}

int cmd_cluster(int argc, char **argv)
{
	static const struct argp_child children[] = {
		[CHILD_HOSTS] = { &hosts_argp, 0, NULL, 0 },
		{ &output_argp, 0, NULL, 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Measures all pairs of hosts in rounds in which each host is in one pair: path, "
		       "latency, bandwidth and lost packets. Compares versions, settings, devices, "
		       "clocks and the launcher's variables. Reports the hosts and pairs with "
		       "problems. With --live: watches running jobs, and names the rank or path "
		       "that delays them.\vExit status: 0 ok, 1 warnings, 2 errors, 3 invalid arguments.",
		.children = children,
	};
	struct cluster_arguments a = {
		.coordinator = {
			.measure = { .streams = 4, .bytes = 1024000000, .ms = 500 },
			.terminal = isatty(STDERR_FILENO),
		},
		.live = { .every = 1 },
	};
	struct worker_options own;
	int status;

	hosts_default(&a.hosts);
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	a.worker.self = self_path();
	a.worker.plugin = a.net ? a.net : self_plugin();
	own = cluster_worker(&a.worker);
	status = hosts_start(&a.hosts, worker_words(&a), &own);
	if (status < 0)
		status = run_all(&a);
	json_decref(a.coordinator.before);
	return status;
}
