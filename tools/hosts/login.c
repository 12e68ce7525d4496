/* SPDX-License-Identifier: Apache-2.0 */
/* Starts workers by ssh, or by the command of --ssh. Their standard input and output are the control connection. */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/pair/wire.h"
#include "tools/shared/child.h"

static void run_ssh(const char *host, const struct remote *remote, int io)
{
	char *text = strdup(remote->ssh), *next = text;
	char **words = calloc(strlen(remote->ssh) / 2 + 4, sizeof(*words)); /* NULL-terminated */
	size_t count = 0;

	dup2(io, STDIN_FILENO);
	dup2(io, STDOUT_FILENO);
	signal(SIGPIPE, SIG_DFL);
	if (!text || !words) {
		fprintf(stderr, "%s\n", strerror(ENOMEM));
		_exit(127);
	}
	while (next) {
		char *word = strsep(&next, " \t");

		if (*word)
			words[count++] = word;
	}
	words[count++] = (char *)(uintptr_t)host;
	words[count++] = (char *)(uintptr_t)remote->command;
	execvp(words[0], words);
	fprintf(stderr, "%s: %s\n", words[0], strerror(errno));
	_exit(127);
}

static void login(struct node *node, const struct remote *remote)
{
	int fd, errors;
	pid_t pid = child_start(&fd, &errors);

	if (!pid)
		run_ssh(node->name, remote, fd);
	if (pid < 0) {
		node_fail(node, "cannot start a process for ssh: %s", strerror(errno));
		return;
	}
	fcntl(errors, F_SETFL, O_NONBLOCK);
	node->pid = pid;
	node->fd = fd;
	node->errors = errors;
}

static void welcome(struct node *node, int ms)
{
	char name[HOST_NAME];
	uint32_t version;
	json_t *join = NULL;
	int ret = pair_greet_after_noise(node->fd, &version, ms);

	if (ret == -EPROTONOSUPPORT)
		node_fail(node, "its anynet uses version %u of the pair protocol, this host %d",
			  version, PAIR_VERSION);
	else if (ret == -ETIMEDOUT)
		node_fail(node, "anynet did not start there in time");
	else if (ret)
		node_fail(node, "anynet did not start there");
	else if (pair_recv(node->fd, &join, ms) || join_parse(join, name, &node->port))
		node_fail(node, "its worker did not join");
	json_decref(join);
}

void nodes_login(struct node *nodes, size_t count, const struct remote *remote, int wait_ms)
{
	uint64_t end = now_ms() + (uint64_t)wait_ms;

	for (size_t i = 0; i < count; i++) {
		const char *at = strrchr(nodes[i].name, '@');

		snprintf(nodes[i].address, sizeof(nodes[i].address), "%s",
			 at ? at + 1 : nodes[i].name);
		login(&nodes[i], remote);
	}
	for (size_t i = 0; i < count; i++) {
		if (nodes[i].fd >= 0)
			welcome(&nodes[i], ms_until(end));
	}
}
