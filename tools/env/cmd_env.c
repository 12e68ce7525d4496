/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The variables that make NCCL load the plugin of this installation. anynet env prints them as shell commands;
 * anynet run runs a command with them.
 */
#include "tools/shared/commands.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/shared/args.h"
#include "tools/shared/self.h"
#include "tools/shared/shell.h"

#define PLUGIN_NAME   "anynet" /* value of NCCL_NET_PLUGIN for libnccl-net-anynet.so */
#define NOT_FOUND     127      /* exit status as of a shell: no such command */
#define NOT_EXECUTED  126      /* exit status as of a shell: the command cannot be executed */
#define PATH_VARIABLE "LD_LIBRARY_PATH"

/*
 * Returns the directory to add to the library search path: the plugin's, if libnccl-net-anynet.so is in it. Otherwise
 * "", as with packages, which install that link in a default directory.
 */
static const char *plugin_dir(void)
{
	static char dir[PATH_MAX];
	char alias[PATH_MAX + 64], *slash;

	if (!realpath(self_plugin(), dir) || !(slash = strrchr(dir, '/')))
		return "";
	*slash = '\0';
	snprintf(alias, sizeof(alias), "%s/libnccl-net-" PLUGIN_NAME ".so", dir);
	return access(alias, R_OK) ? "" : dir;
}

int cmd_env(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Prints the commands that make NCCL load this plugin: eval \"$(anynet env)\"",
	};
	const char *dir = plugin_dir();

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (*dir)
		printf("export " PATH_VARIABLE "=%s${" PATH_VARIABLE ":+:$" PATH_VARIABLE "}\n",
		       shell_quoted(dir));
	printf("export NCCL_NET_PLUGIN=" PLUGIN_NAME "\n");
	return 0;
}

/* Returns 0, or -1 with errno set. */
static int set_variables(void)
{
	const char *dir = plugin_dir(), *before = getenv(PATH_VARIABLE);
	bool more = before && *before;

	if (*dir && setenv(PATH_VARIABLE,
			   text_format("%s%s%s", dir, more ? ":" : "", more ? before : ""), 1))
		return -1;
	return setenv("NCCL_NET_PLUGIN", PLUGIN_NAME, 1);
}

static error_t take_command(int key, char *arg, struct argp_state *state)
{
	int *first = state->input;

	(void)arg;
	if (key == ARGP_KEY_NO_ARGS)
		argp_usage(state);
	if (key != ARGP_KEY_ARGS)
		return ARGP_ERR_UNKNOWN;
	*first = state->next;
	return 0;
}

int cmd_run(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = take_command,
		.args_doc = "COMMAND [ARGUMENT...]",
		.doc = "Runs a command with the variables of `anynet env`.",
	};
	int first = argc;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &first);
	if (!set_variables())
		execvp(argv[first], argv + first);
	fprintf(stderr, "anynet run: %s: %s\n", argv[first], strerror(errno));
	return errno == ENOENT ? NOT_FOUND : NOT_EXECUTED;
}
