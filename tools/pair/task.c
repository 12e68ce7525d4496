/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement in a child process; see task.h. */
#include "task.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/shared/child.h"
#include "wire.h"

#define RESULT_MAX (4 * PAIR_FRAME_MAX)
#define PIECE      65536

struct task {
	pid_t pid;
	int out; /* socket with the result */
	char *text;
	size_t bytes, room;
};

static void child(int out, pid_t parent, json_t *(*run)(void *arg), void *arg)
{
	FILE *file = fdopen(out, "w");

	child_ends_with(parent);
	signal(SIGINT, SIG_DFL);
	if (file) {
		json_dumpf(run(arg), file, JSON_COMPACT);
		fflush(file);
	}
	_exit(0);
}

/* Reads the available output. Returns 1 if the task has ended, else 0. */
static int read_output(struct task *task)
{
	ssize_t n;

	if (task->bytes == task->room) {
		char *more = realloc(task->text, task->room + PIECE);

		if (!more || task->room >= RESULT_MAX)
			return 1;
		task->text = more;
		task->room += PIECE;
	}
	n = read(task->out, task->text + task->bytes, task->room - task->bytes);
	if (n > 0)
		task->bytes += (size_t)n;
	return !n || (n < 0 && errno != EINTR);
}

/* `status` is from waitpid. SIGKILL may be the one of end_task. */
static json_t *failure(const char *what, int status)
{
	char text[200];

	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		snprintf(text, sizeof(text), "%s ended: signal %d (%s)", what, WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(text, sizeof(text), "%s ended without a result", what);
	return json_pack("{s:s}", "error", text);
}

static json_t *end_task(struct task *task, const char *what)
{
	json_t *result = task->bytes ? json_loadb(task->text, task->bytes, 0, NULL) : NULL;
	int status = 0;

	close(task->out);
	kill(task->pid, SIGKILL);
	waitpid(task->pid, &status, 0);
	free(task->text);
	if (json_is_object(result))
		return result;
	json_decref(result);
	return failure(what, status);
}

json_t *task_run(json_t *(*run)(void *arg), void *arg, int ms, const char *what, int watched)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	pid_t parent = getpid();
	struct task task = { 0 };
	int left;

	task.pid = child_start(&task.out, NULL);
	if (!task.pid)
		child(task.out, parent, run, arg);
	if (task.pid < 0)
		return json_pack("{s:s}", "error", strerror(errno));
	while ((left = ms_until(end))) {
		struct pollfd pfds[] = { { .fd = task.out, .events = POLLIN },
					 { .fd = watched, .events = POLLIN } };

		if (poll(pfds, 2, left) <= 0)
			continue;
		if (pfds[1].revents) {
			json_decref(end_task(&task, what));
			return NULL;
		}
		if (read_output(&task))
			break;
	}
	return end_task(&task, what);
}
