/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair and anynet serve: the command lines. */
#include "anynet.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "pair/client.h"
#include "pair/dial.h"
#include "pair/print.h"
#include "pair/server.h"
#include "pair/traffic.h"
#include "pair/wire.h"
#include "perf_args.h"

#define USAGE 3 /* exit status */

enum {
	KEY_NET = 0x100,
	KEY_SECONDS,
	KEY_BYTES,
	KEY_STREAMS,
	KEY_DEV,
	KEY_BIND,
	KEY_CLIENTS
};

static long long parse_number(struct argp_state *state, const char *what, const char *text,
			      long long min, long long max)
{
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (end == text || *end || errno || value < min || value > max)
		argp_error(state, "%s '%s': a number from %lld to %lld is wanted", what, text, min,
			   max);
	return value;
}

/* --- pair --- */

struct pair_arguments {
	struct client_options options;
	bool json;
	char host[256];
};

static const struct argp_option pair_options[] = {
	{ "json", 'j', NULL, 0, "as JSON", 0 },
	{ "seconds", KEY_SECONDS, "S", 0,
	  "longest time of each bandwidth run, up to 10; 0 = measure no bandwidth (1)", 0 },
	{ "bytes", KEY_BYTES, "MB", 0, "most megabytes of each bandwidth run, up to 65536 (1024)",
	  0 },
	{ "streams", KEY_STREAMS, "N", 0, "connections of the plugin at once, 1 to 16 (4)", 0 },
	{ "dev", KEY_DEV, "N", 0, "device of the net, on both hosts (0)", 0 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 0 },
	{ 0 },
};

static int parse_seconds(struct argp_state *state, const char *text)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (end == text || *end || errno || !(value >= 0 && value <= DIAL_MS_MAX / 1000.0))
		argp_error(state, "--seconds '%s': a number from 0 to %d is wanted", text,
			   DIAL_MS_MAX / 1000);
	return (int)(value * 1000);
}

/* HOST, HOST:PORT, an IPv6 address, or one in brackets and a port. */
static void parse_host(struct argp_state *state, struct pair_arguments *a, const char *text)
{
	const char *colon = strrchr(text, ':'), *port = NULL;
	size_t bytes = strlen(text);

	if (*text == '[' && strchr(text, ']')) {
		const char *close = strchr(text, ']');

		port = close[1] == ':' ? close + 2 : NULL;
		if (close[1] && !port)
			argp_error(state, "'%s': HOST:PORT or [ADDRESS]:PORT is wanted", text);
		text++;
		bytes = (size_t)(close - text);
	} else if (colon && strchr(text, ':') == colon) {
		port = colon + 1;
		bytes = (size_t)(colon - text);
	}
	if (!bytes || bytes >= sizeof(a->host))
		argp_error(state, "a host of at most 255 characters is wanted");
	snprintf(a->host, sizeof(a->host), "%.*s", (int)bytes, text);
	a->options.host = a->host;
	if (port)
		a->options.port = (int)parse_number(state, "port", port, 1, 65535);
}

static error_t parse_pair(int key, char *arg, struct argp_state *state)
{
	struct pair_arguments *a = state->input;

	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case KEY_SECONDS:
		a->options.ms = parse_seconds(state, arg);
		return 0;
	case KEY_BYTES:
		a->options.bytes = parse_number(state, "--bytes", arg, 1, 65536) * 1000000;
		return 0;
	case KEY_STREAMS:
		a->options.streams =
			(int)parse_number(state, "--streams", arg, 1, TRAFFIC_CHANNELS_MAX);
		return 0;
	case KEY_DEV:
		a->options.dev = (int)parse_number(state, "--dev", arg, 0, 255);
		return 0;
	case KEY_NET:
		a->options.plugin = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (a->options.host)
			argp_error(state, "one host is wanted");
		parse_host(state, a, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "name the host that runs `anynet serve`");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_pair(int argc, char **argv)
{
	static const struct argp argp = {
		pair_options,
		parse_pair,
		"HOST[:PORT]",
		"Looks at the way between this host and one that runs `anynet serve`, in both "
		"directions: versions, settings, clocks, MTU, data ports, latency and bandwidth."
		"\vExit status: 0 fine, 1 warnings, 2 errors, 3 wrong arguments.",
		NULL,
		NULL,
		NULL,
	};
	struct pair_arguments a = {
		.options = {
			.port = PAIR_PORT,
			.streams = 4,
			.bytes = 1024000000,
			.ms = 1000,
			.announce = true,
			.progress = isatty(STDERR_FILENO),
		},
	};
	json_t *result;
	int status;

	argp_err_exit_status = USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (!a.options.plugin)
		a.options.plugin = perf_default_plugin();
	result = client_run(&a.options);
	if (a.json) {
		json_dumpf(result, stdout, JSON_INDENT(2));
		printf("\n");
	} else {
		print_result(result, stdout, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
	}
	status = (int)json_integer_value(json_object_get(result, "status"));
	json_decref(result);
	return status;
}

/* --- serve --- */

static const struct argp_option serve_options[] = {
	{ "port", 'p', "PORT", 0, "port to wait on, 0 = any (4747)", 0 },
	{ "bind", KEY_BIND, "ADDRESS", 0, "wait on this address of this host only (all)", 0 },
	{ "clients", KEY_CLIENTS, "N", 0, "end after N connections (never)", 0 },
	{ "net", KEY_NET, "FILE", 0, "plugin to measure with (the one beside this tool)", 0 },
	{ 0 },
};

static error_t parse_serve(int key, char *arg, struct argp_state *state)
{
	struct server_options *o = state->input;

	switch (key) {
	case 'p':
		o->port = (int)parse_number(state, "--port", arg, 0, 65535);
		return 0;
	case KEY_BIND:
		o->bind = arg;
		return 0;
	case KEY_CLIENTS:
		o->clients = (int)parse_number(state, "--clients", arg, 1, INT_MAX);
		return 0;
	case KEY_NET:
		o->plugin = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is no option", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_serve(int argc, char **argv)
{
	static const struct argp argp = {
		serve_options,
		parse_serve,
		NULL,
		"Waits for `anynet pair` from another host, and serves one after another until it is "
		"interrupted."
		"\vWho may connect: everybody, or ANYNET_ALLOW. A client is told this host's NCCL_* "
		"and ANYNET_* variables and may have it dial addresses and measure for some seconds: "
		"end it when it is no longer needed. Exit status: 2 if it cannot listen, 3 for wrong "
		"arguments.",
		NULL,
		NULL,
		NULL,
	};
	struct server_options options = { .port = PAIR_PORT };

	argp_err_exit_status = USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	if (!options.plugin)
		options.plugin = perf_default_plugin();
	return server_run(&options);
}
