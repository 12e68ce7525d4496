/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf over several hosts: the worker; see perf_worker.h. It is between its ranks and the coordinator. */
#include "perf_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf_args.h"
#include "perf_meet.h"
#include "tools/pair/wire.h"
#include "tools/shared/child.h"
#include "tools/shared/clean.h"
#include "tools/shared/member.h"

struct ranks { /* the ranks of this host, in a process of their own */
	pid_t pid;
	int meets;       /* socket: what their first one tells the coordinator; -1 = closed */
	int errors;      /* pipe: their stderr; -1 = closed */
	char text[2048]; /* the beginning of a line from there */
	size_t bytes;
};

static int ranks_start(struct ranks *r, const struct perf_options *o, int first, int control)
{
	pid_t parent = getpid();

	*r = (struct ranks){ .meets = -1, .errors = -1 };
	r->pid = child_start(&r->meets, &r->errors);
	if (!r->pid) {
		child_ends_with(parent);
		close(control);
		_exit(perf_run(o, first, r->meets));
	}
	return r->pid < 0 ? -errno : 0;
}

/* Ends the ranks, if they still run. Returns their GROUP_ code. */
static int ranks_end(struct ranks *r, bool kill_them)
{
	int status = 0;

	if (r->pid <= 0)
		return GROUP_ERROR;
	close(r->meets);
	close(r->errors);
	if (kill_them)
		kill(r->pid, SIGKILL);
	waitpid(r->pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : GROUP_ERROR;
}

static int say_line(int control, const char *line, size_t bytes)
{
	char text[sizeof(((struct ranks *)0)->text)];

	clean(text, sizeof(text), line, bytes);
	return pair_send_new(control, json_pack("{s:s, s:s}", "step", "said", "text", text),
			     WORKER_SEND_MS);
}

/* Passes on whole lines, and what is left at the end. */
static int say_lines(struct ranks *r, int control)
{
	ssize_t n = read(r->errors, r->text + r->bytes, sizeof(r->text) - r->bytes);
	char *end;

	if (n > 0)
		r->bytes += (size_t)n;
	while ((end = memchr(r->text, '\n', r->bytes)) ||
	       (r->bytes && (n <= 0 || r->bytes == sizeof(r->text)))) {
		size_t line = end ? (size_t)(end - r->text) : r->bytes, used = line + !!end;

		if (say_line(control, r->text, line))
			return -1;
		r->bytes -= used;
		memmove(r->text, r->text + used, r->bytes);
	}
	if (n > 0)
		return 0;
	close(r->errors);
	r->errors = -1;
	return 0;
}

/* Returns 1 if the sender has closed. */
static int pass_on(int from, int to)
{
	json_t *message;
	int ret = pair_recv(from, &message, MEET_FRAME_MS);

	if (ret)
		return 1;
	return pair_send_new(to, message, WORKER_SEND_MS) ? -1 : 0;
}

static bool is_step(const json_t *message)
{
	return *member_text(message, "step") != '\0';
}

/* Returns 0, 1 if the coordinator wants the ranks to end, or -1 if it has left. */
static int pass_in(int control, struct ranks *r)
{
	json_t *message;
	int ret = 1;

	if (pair_recv(control, &message, MEET_FRAME_MS))
		return -1;
	/* A rank that has ended misses nothing. */
	if (is_step(message)) {
		pair_send(r->meets, message, WORKER_SEND_MS);
		ret = 0;
	}
	json_decref(message);
	return ret;
}

/* Carries messages until the ranks have ended. Returns 0, or 1 or -1 as pass_in. */
static int carry(struct ranks *r, int control)
{
	int ret = 0;

	while (!ret && (r->meets >= 0 || r->errors >= 0)) {
		struct pollfd pfds[] = { { .fd = control, .events = POLLIN },
					 { .fd = r->errors, .events = POLLIN },
					 { .fd = r->meets, .events = POLLIN } };

		if (poll(pfds, 3, -1) < 0 && errno != EINTR)
			return -1;
		if (pfds[0].revents)
			ret = pass_in(control, r);
		if (!ret && pfds[1].revents)
			ret = say_lines(r, control);
		if (ret || !pfds[2].revents)
			continue;
		ret = pass_on(r->meets, control);
		if (ret > 0) {
			close(r->meets);
			r->meets = -1;
			ret = 0;
		}
	}
	return ret;
}

static int send_end(int control, int status)
{
	return pair_send_new(control, json_pack("{s:s, s:i}", "step", "ended", "status", status),
			     WORKER_SEND_MS)
		       ? -1
		       : 0;
}

static int run(const struct perf_options *o, int first, int control)
{
	struct ranks ranks;
	int status, ret = ranks_start(&ranks, o, first, control);

	if (ret)
		ret = say_line(control, strerror(-ret), strlen(strerror(-ret)));
	else
		ret = carry(&ranks, control);
	status = ranks_end(&ranks, ret != 0);
	return ret ? ret : send_end(control, status);
}

/* The ranks could wait for each other forever, or take part of the data for all. */
static int reject(int control, const char *own)
{
	static const char text[] = "started with other options than the coordinator: ";
	char line[1024];

	snprintf(line, sizeof(line), "%s%s", text, own);
	return say_line(control, line, strlen(line)) ? -1 : send_end(control, GROUP_ERROR);
}

static int obey(void *arg, int control, const json_t *order)
{
	struct perf_options o = *(const struct perf_options *)arg;
	int first = (int)member_int(order, "first", 0, PERF_RANKS_MAX - o.here, -1), ret;
	char *own;

	if (!strcmp(member_text(order, "op"), "bye"))
		return 1;
	o.ranks = (int)member_int(order, "ranks", o.here, PERF_RANKS_MAX, -1);
	if (strcmp(member_text(order, "op"), "run") != 0 || first < 0 || o.ranks < first + o.here ||
	    (o.pattern->is_of_two && !perf_is_of_two(o.ranks)))
		return -1;
	own = perf_words(&o);
	if (!strcmp(own, member_text(order, "options")))
		ret = run(&o, first, control);
	else
		ret = reject(control, own);
	return ret;
}

struct worker_options perf_worker(struct perf_options *o, const char *self)
{
	return (struct worker_options){ "anynet perf", self, NULL, obey, o };
}
