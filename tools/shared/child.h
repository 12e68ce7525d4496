/* SPDX-License-Identifier: Apache-2.0 */
/* Child processes, which end with their parent. */
#ifndef TOOLS_CHILD_H
#define TOOLS_CHILD_H

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The calling child process ends when its parent does. `parent`: getpid() before the fork. */
static inline void child_ends_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it ended before the call above */
		_exit(1);
}

/*
 * Forks a process that is connected with this one by a socket: *fd is each one's end. If `errors` is not NULL, the parent
 * reads there what the child writes to its standard error. Returns as fork; -1: nothing is open.
 */
pid_t child_start(int *fd, int *errors);

#endif
