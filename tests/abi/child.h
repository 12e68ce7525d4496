/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the body of a test in a process of its own: its libraries, settings and files are gone afterwards, and a hang is
 * detected.
 */
#ifndef ANYNET_TEST_CHILD_H
#define ANYNET_TEST_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#define BOUND_SECONDS 250

/* Runs in a child that is killed if it hangs: returns its wait status, 0 if all went well; -1 if fork failed. */
static inline int in_process(void (*body)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(BOUND_SECONDS);
		body();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return status;
}

#endif
