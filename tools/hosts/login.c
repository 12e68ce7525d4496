/* SPDX-License-Identifier: Apache-2.0 */
/* Starts workers by ssh, or by the command of --ssh. Their standard input and output are the control connection. */
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/pair/wire.h"

static void run_ssh(const char *host, const struct remote *remote, int io, int errors)
{
	char *text = strdup(remote->ssh), *next = text;
	char **words = calloc(strlen(remote->ssh) / 2 + 4, sizeof(*words)); /* NULL-terminated */
	size_t count = 0;

	dup2(io, STDIN_FILENO);
	dup2(io, STDOUT_FILENO);
	dup2(errors, STDERR_FILENO);
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
	int io[2], errors[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, io)) {
		node_fail(node, "%s", strerror(errno));
		return;
	}
	if (pipe2(errors, O_CLOEXEC)) {
		node_fail(node, "%s", strerror(errno));
		close(io[0]);
		close(io[1]);
		return;
	}
	fflush(NULL);
	node->pid = fork();
	if (!node->pid)
		run_ssh(node->name, remote, io[1], errors[1]);
	close(io[1]);
	close(errors[1]);
	fcntl(errors[0], F_SETFL, O_NONBLOCK);
	node->fd = io[0];
	node->errors = errors[0];
	if (node->pid < 0)
		node_fail(node, "cannot start a process for ssh: %s", strerror(errno));
}

static void welcome(struct node *node, int ms)
{
	char name[HOST_NAME];
	uint32_t version;
	json_t *join = NULL;
	int ret = pair_greet_after_noise(node->fd, &version, ms);

	if (ret == -EPROTONOSUPPORT)
		node_fail(node, "its anynet uses version %u of the protocol, this one %d", version,
			  PAIR_VERSION);
	else if (ret == -ETIMEDOUT)
		node_fail(node, "no worker started in time");
	else if (ret)
		node_fail(node, "no worker started");
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
