/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's side of a worker; see node.h. */
#include "node.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/pair/wire.h"
#include "tools/shared/clean.h"

#define END_MS   2000
#define LOOK_MS  5
#define SEND_MS  5000
#define SAID_MAX 4096

/* Stores the last non-empty line of stderr, which contains ssh's error message. */
static void last_stderr_line(int fd, char *line, size_t room)
{
	char text[SAID_MAX + 1];
	size_t kept = 0;
	ssize_t n;
	const char *begin;

	*line = '\0';
	while (fd >= 0 && (n = read(fd, text + kept, SAID_MAX - kept)) > 0) {
		kept += (size_t)n;
		if (kept < SAID_MAX)
			continue;
		kept = SAID_MAX / 2;
		memmove(text, text + SAID_MAX - kept, kept);
	}
	while (kept && !isgraph((unsigned char)text[kept - 1]))
		kept--;
	text[kept] = '\0';
	begin = memrchr(text, '\n', kept);
	snprintf(line, room, "%.*s", (int)room - 1, begin ? begin + 1 : text);
}

void node_fail(struct node *node, const char *fmt, ...)
{
	char reason[NODE_ERROR / 2 - 4], last[NODE_ERROR / 2 - 4];
	va_list ap;

	if (*node->error)
		return;
	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	last_stderr_line(node->errors, last, sizeof(last));
	snprintf(node->error, sizeof(node->error), "%s%s%s%s", reason, *last ? ": '" : "", last,
		 *last ? "'" : "");
	clean_ascii(node->error, node->error, strlen(node->error));
	node_end(node);
}

static void worker_failed(struct node *node, int ret)
{
	node_fail(node, ret == -ETIMEDOUT ? "its worker does not answer"
			: ret == -EPROTO  ? "its worker sent an invalid message"
					  : "its worker has ended");
}

void node_send(struct node *node, json_t *message)
{
	int ret;

	if (node->fd < 0) {
		json_decref(message);
		return;
	}
	ret = pair_send_new(node->fd, message, SEND_MS);
	if (ret)
		worker_failed(node, ret);
}

json_t *node_recv(struct node *node, uint64_t end)
{
	json_t *message = NULL;
	int ret = node->fd < 0 ? 0 : pair_recv(node->fd, &message, ms_until(end));

	if (ret)
		worker_failed(node, ret);
	return message;
}

/* SIGTERM first, so that ssh can end the remote command. */
static void await_end(pid_t pid)
{
	uint64_t end = now_ms() + END_MS;

	kill(pid, SIGTERM);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (now_ms() >= end) {
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
			return;
		}
		sleep_ms(LOOK_MS);
	}
}

void node_end(struct node *node)
{
	if (node->fd >= 0)
		close(node->fd);
	if (node->errors >= 0)
		close(node->errors);
	node->fd = node->errors = -1;
	if (node->pid > 0)
		await_end(node->pid);
	node->pid = 0;
}
