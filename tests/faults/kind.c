/* SPDX-License-Identifier: Apache-2.0 */
#include "kind.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <unistd.h>

#define VARIABLES 50

static const char *const names[KINDS] = { "plain", "worker", "stdio", "setenv" };

enum kind kind_named(const char *name)
{
	int kind = 0;

	while (kind < KINDS && strcmp(names[kind], name))
		kind++;
	return (enum kind)kind;
}

/* It is in the scenario's process group, and is killed with it. */
static void fork_worker(void)
{
	pid_t pid = fork();

	check_that(pid >= 0, "fork: %s", strerror(errno));
	while (!pid)
		pause();
}

/* Sets and unsets variables all the time, so the table is reallocated: a reader may access freed memory. */
static void *change_environment(void *arg)
{
	char name[32];

	for (unsigned i = 0;; i = (i + 1) % VARIABLES) {
		snprintf(name, sizeof(name), "FAULTS_%u", i);
		if (!i)
			clearenv();
		setenv(name, "1", 1);
	}
	return arg;
}

void kind_begin(enum kind kind)
{
	for (int fd = 0; kind == KIND_STDIO && fd < 3; fd++)
		close(fd);
}

void kind_listening(enum kind kind)
{
	if (kind == KIND_WORKER)
		fork_worker();
}

void kind_up(enum kind kind)
{
	pthread_t thread;

	if (kind == KIND_WORKER)
		fork_worker();
	if (kind == KIND_SETENV)
		check_ok(pthread_create(&thread, NULL, change_environment, NULL));
}
