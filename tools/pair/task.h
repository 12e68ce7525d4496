/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measurement in a child process: it cannot change the state of the parent, and can be killed at
 * any time. It returns one JSON object through a socket. The child dies with its parent.
 */
#ifndef PAIR_TASK_H
#define PAIR_TASK_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

struct task {
	pid_t pid; /* 0 = none */
	int out;   /* socket to poll; task_read reads it */
	char *text;
	size_t bytes, room;
};

/* Forks a process that sends the object of run(arg). Returns 0 or a negative errno. No other thread
 * may run. */
int task_start(struct task *task, json_t *(*run)(void *arg), void *arg);

/* Reads the available output. Returns 1 if the task has ended (call task_end), else 0. */
int task_read(struct task *task);

/*
 * Kills the process if it still runs. Returns its object, or {"error": text} if it sent none; the
 * caller releases it. `what` names the process in the text.
 */
json_t *task_end(struct task *task, const char *what);

/* Starts a task, waits for at most `ms`, and ends it. Returns the same as task_end. */
json_t *task_run(json_t *(*run)(void *arg), void *arg, int ms, const char *what);

#endif
