/* SPDX-License-Identifier: Apache-2.0 */
/* The command-line tool anynet: the table of its commands, and help. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "plugin/config_names.h"
#include "tools/shared/status.h"

static int cmd_help(int argc, char **argv);

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *line;
} commands[] = {
	{ "check", cmd_check, "diagnose this host: what is wrong, why it matters, how to fix it" },
	{ "cluster", cmd_cluster,
	  "measure all pairs of hosts: latency, bandwidth, slow and broken pairs, differences" },
	{ "config", cmd_config, "print the settings, their values on this host and their sources" },
	{ "devices", cmd_devices,
	  "print the devices that NCCL gets on this host, and why others are not used" },
	{ "dump", cmd_dump, "print the connections of a process and their last events" },
	{ "env", cmd_env, "print the variables that make NCCL load this plugin, for a shell" },
	{ "explain", cmd_explain, "explain logs: the cause first, and how to fix it" },
	{ "export", cmd_export, "export the connections of running jobs as Prometheus metrics" },
	{ "pair", cmd_pair,
	  "test the path to another host in both directions: ports, MTU, clocks, latency, "
	  "bandwidth" },
	{ "perf", cmd_perf,
	  "run checked collectives between processes of this host, or of several" },
	{ "run", cmd_run, "run a command with the variables of `anynet env`" },
	{ "serve", cmd_serve, "serve `anynet pair` from other hosts" },
	{ "top", cmd_top, "show the connections of running jobs on this host, problems first" },
	{ "version", cmd_version,
	  "print the versions of the tool and of the plugin's wire "
	  "protocol" },
	{ "help", cmd_help, "this list, or the options of a command" },
};

static void print_help(FILE *out)
{
	fprintf(out, "usage: anynet COMMAND [OPTION...]\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].line);
	fprintf(out,
		"\n`anynet help COMMAND` prints the options of a command; see also anynet(1).\n");
}

static int find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(name, commands[i].name))
			return (int)i;
	}
	return -1;
}

static int run(int command, int argc, char **argv)
{
	static char who[64];
	int status;

	snprintf(who, sizeof(who), "anynet %s", commands[command].name);
	argv[0] = who;
	status = commands[command].run(argc, argv);
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fprintf(stderr, "%s: the output cannot be written\n", who);
	return status > STATUS_ERROR ? status : STATUS_ERROR;
}

/* Returns the command at the smallest edit distance: at most 2, or 1 for names of up to 3 letters. NULL = none. */
static const char *nearest(const char *name)
{
	const char *found = NULL;
	size_t least = strlen(name) > 3 ? 3 : 2;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		size_t distance = anynet_name_distance(name, commands[i].name);

		if (distance < least) {
			least = distance;
			found = commands[i].name;
		}
	}
	return found;
}

static int unknown(const char *name)
{
	const char *meant = nearest(name);

	fprintf(stderr, "anynet: '%s' is not a command%s%s%s; `anynet help` lists them\n", name,
		meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : "");
	return STATUS_UNREADABLE;
}

/* Prints the list of commands, or the help of one. */
static int cmd_help(int argc, char **argv)
{
	static char help[] = "--help";
	char *arguments[] = { NULL, help, NULL };
	int command;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	command = find(argv[1]);
	if (command < 0)
		return unknown(argv[1]);
	if (commands[command].run == cmd_help) {
		print_help(stdout);
		return 0;
	}
	return run(command, 2, arguments);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	int command;

	anynet_log_set_sink(NULL);
	argp_err_exit_status = STATUS_UNREADABLE;
	if (!strcmp(name, "--help") || !strcmp(name, "-h"))
		name = "help";
	if (!strcmp(name, "--version") || !strcmp(name, "-V"))
		name = "version";
	command = find(name);
	if (command >= 0)
		return run(command, argc - 1, argv + 1);
	if (*name)
		return unknown(name);
	print_help(stderr);
	return STATUS_UNREADABLE;
}
