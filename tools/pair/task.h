/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measurement in a process of its own: what it changes stays there, and it can be ended at any moment.
 * It leaves one JSON object behind. It ends with its parent.
 */
#ifndef PAIR_TASK_H
#define PAIR_TASK_H

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

struct task {
	pid_t pid; /* 0 = none */
	int out;   /* to be polled: what comes is for task_read */
	char *text;
	size_t bytes, room;
};

/* Starts run(arg), whose object is sent here. 0 or a negative errno. No thread may run. */
int task_start(struct task *task, json_t *(*run)(void *arg), void *arg);

/* Takes in what is there. 1: the task has ended, ask task_end; 0: not yet. */
int task_read(struct task *task);

/* Ends the process if it still runs. What it left behind, or NULL; the caller releases it. */
json_t *task_end(struct task *task);

/* Starts, waits for at most so long, ends. */
json_t *task_run(json_t *(*run)(void *arg), void *arg, int ms);

#endif
