/* SPDX-License-Identifier: Apache-2.0 */
/* Starts child processes; see child.h. */
#include "child.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

pid_t child_start(int *fd, int *errors)
{
	int ends[2], said[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -1;
	if (errors && pipe2(said, O_CLOEXEC)) {
		close(ends[0]);
		close(ends[1]);
		return -1;
	}
	fflush(NULL);
	pid = fork();
	close(ends[pid ? 1 : 0]);
	*fd = ends[pid ? 0 : 1];
	if (errors) {
		*errors = said[0];
		if (!pid) {
			dup2(said[1], STDERR_FILENO);
			close(said[0]);
		}
		close(said[1]);
	}
	if (pid < 0) {
		close(*fd);
		*fd = -1;
		if (errors) {
			close(*errors);
			*errors = -1;
		}
	}
	return pid;
}
