/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of anynet pair and anynet serve. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <limits.h>
#include <stdio.h>

#include "client.h"
#include "measure_args.h"
#include "print.h"
#include "server.h"
#include "tools/shared/args.h"
#include "tools/shared/document.h"
#include "tools/shared/output_args.h"
#include "tools/shared/self.h"
#include "tools/shared/terminal.h"
#include "wire.h"

enum {
	KEY_NET = 0x100,
	KEY_BIND,
	KEY_CLIENTS
};

/* --- pair --- */

struct pair_arguments {
	struct client_options options;
	char host[ARGS_HOST];
};

static const struct argp_option pair_options[] = {
	{ "seconds", KEY_SECONDS, "S", 0,
	  "duration limit of each bandwidth run, up to 10; 0 = no bandwidth (1)", 0 },
	{ "bytes", KEY_BYTES, "MB", 0,
	  "data limit of each bandwidth run in MB, up to 65536 "
	  "(1024)",
	  0 },
	{ "streams", KEY_STREAMS, "N", 0, "simultaneous connections of the plugin, 1 to 16 (4)",
	  0 },
	{ "dev", KEY_DEV, "N", 0, "device of the net, on both hosts (0)", 0 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 0 },
	{ 0 },
};

static error_t parse_pair(int key, char *arg, struct argp_state *state)
{
	struct pair_arguments *a = state->input;

	switch (key) {
	case KEY_NET:
		a->options.plugin = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (a->options.host)
			argp_error(state, "give one host");
		args_host(state, arg, a->host, 1, &a->options.port);
		a->options.host = a->host;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "give the host that runs `anynet serve`");
		return 0;
	default:
		return measure_parse(key, arg, state, &a->options.measure);
	}
}

int cmd_pair(int argc, char **argv)
{
	static const struct argp argp = {
		.options = pair_options,
		.parser = parse_pair,
		.args_doc = "HOST[:PORT]",
		.doc = "Tests the path between this host and one that runs `anynet serve`, in both "
		       "directions: versions, settings, clocks, MTU, data ports, latency and "
		       "bandwidth.\vExit status: 0 ok, 1 warnings, 2 errors, 3 invalid arguments.",
		.children = output_args,
	};
	struct pair_arguments a = {
		.options = {
			.port = PAIR_PORT,
			.measure = { .streams = 4, .bytes = 1024000000, .ms = 1000 },
		},
	};
	struct terminal terminal;
	json_t *result;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (!a.options.plugin)
		a.options.plugin = self_plugin();
	result = client_run(&a.options);
	if (output_is_json()) {
		document_print("pair", json_incref(result), stdout);
	} else {
		terminal = terminal_of(stdout);
		print_result(result, stdout, &terminal);
	}
	status = (int)json_integer_value(json_object_get(result, "status"));
	json_decref(result);
	return status;
}

/* --- serve --- */

static const struct argp_option serve_options[] = {
	{ "json", 'j', NULL, 0, "print each line as JSON", 0 },
	{ "port", 'p', "PORT", 0, "port to listen on, 0 = any (4747)", 0 },
	{ "bind", KEY_BIND, "ADDRESS", 0, "listen only on this address of this host (all)", 0 },
	{ "clients", KEY_CLIENTS, "N", 0, "exit after N connections (never)", 0 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 0 },
	{ 0 },
};

static error_t parse_serve(int key, char *arg, struct argp_state *state)
{
	struct server_options *o = state->input;

	switch (key) {
	case 'j':
		o->json = true;
		return 0;
	case 'p':
		o->port = (int)args_number(state, "--port", arg, 0, 65535);
		return 0;
	case KEY_BIND:
		o->bind = arg;
		return 0;
	case KEY_CLIENTS:
		o->clients = (int)args_number(state, "--clients", arg, 1, INT_MAX);
		return 0;
	case KEY_NET:
		o->plugin = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is not an option", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_serve(int argc, char **argv)
{
	static const struct argp argp = {
		.options = serve_options,
		.parser = parse_serve,
		.doc = "Serves `anynet pair` from other hosts, one after another, until it is "
		       "interrupted.\vAny host may connect, or those in ANYNET_ALLOW. A client gets "
		       "this host's NCCL_* and ANYNET_* variables, and can make it connect to addresses "
		       "and measure for some seconds: stop it when it is no longer needed. Exit status: "
		       "2 if it cannot listen, 3 for invalid arguments.",
	};
	struct server_options options = { .port = PAIR_PORT };

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (!options.plugin)
		options.plugin = self_plugin();
	return server_run(&options);
}
