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

int task_start(struct task *task, json_t *(*run)(void *arg), void *arg)
{
	pid_t parent = getpid();

	*task = (struct task){ .out = -1 };
	task->pid = child_start(&task->out, NULL);
	if (!task->pid)
		child(task->out, parent, run, arg);
	if (task->pid > 0)
		return 0;
	*task = (struct task){ .out = -1 };
	return -errno;
}

int task_read(struct task *task)
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

/* `status` is from waitpid. SIGKILL may be the one of task_end. */
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

json_t *task_end(struct task *task, const char *what)
{
	json_t *result = task->bytes ? json_loadb(task->text, task->bytes, 0, NULL) : NULL;
	int status = 0;

	if (task->pid > 0) {
		close(task->out);
		kill(task->pid, SIGKILL);
		waitpid(task->pid, &status, 0);
	}
	free(task->text);
	*task = (struct task){ .out = -1 };
	if (json_is_object(result))
		return result;
	json_decref(result);
	return failure(what, status);
}

json_t *task_run(json_t *(*run)(void *arg), void *arg, int ms, const char *what)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	struct task task;
	int left, ret = task_start(&task, run, arg);

	if (ret)
		return json_pack("{s:s}", "error", strerror(-ret));
	while ((left = ms_until(end))) {
		struct pollfd pfd = { .fd = task.out, .events = POLLIN };

		if (poll(&pfd, 1, left) > 0 && task_read(&task))
			break;
	}
	return task_end(&task, what);
}
