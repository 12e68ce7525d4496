/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test's body in a process of its own: what it loads, sets and makes is gone with it, and a hang is seen.
 */
#ifndef ANYNET_TEST_CHILD_H
#define ANYNET_TEST_CHILD_H

#include <sys/wait.h>
#include <unistd.h>

#define BOUND_SECONDS 30

/* Run in a child that is killed if it hangs: its wait status, 0 if all went well; -1 if there was none. */
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
