/* SPDX-License-Identifier: Apache-2.0 */
#include "selfcheck.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <support/check.h>
#include <support/peer.h>

#define LONGEST_MS (4 * TEST_PATIENCE_MS) /* against hangs */

static int fails(const struct selfcheck *check, void (*run)(const struct selfcheck *check))
{
	const char *verdict = "ok";
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	check_that(pid >= 0, "fork");
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		run(check);
		exit(0);
	}
	if (!peer_reap(pid, LONGEST_MS, &status)) {
		kill(pid, SIGKILL);
		check_that(waitpid(pid, &status, 0) == pid, "waitpid");
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED)
		verdict = "skipped";
	else if (status)
		verdict = "FAIL";
	printf("%s: %s\n", verdict, check->name);
	return *verdict == 'F';
}

int selfcheck_run(const struct selfcheck *list, void (*run)(const struct selfcheck *check))
{
	const char *pattern = getenv("TEST_FILTER");
	int failed = 0;

	for (; list->name; list++)
		if (!pattern || !fnmatch(pattern, list->name, 0))
			failed += fails(list, run);
	return failed;
}
