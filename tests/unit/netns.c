/* SPDX-License-Identifier: Apache-2.0 */
/* A network namespace of the test's own; see netns.h. */
#include "netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void skip(const char *what)
{
	printf("SKIP %s: %s\n", what, strerror(errno));
	exit(SKIP_EXIT);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		skip(path);
	close(fd);
}

void netns_enter(void)
{
	char map[64];
	unsigned uid = geteuid(), gid = getegid();

	if (!unshare(CLONE_NEWNET))
		return;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		skip("this process may not make a network namespace");
	write_file("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

bool netns_ip(bool quiet, const char *arguments)
{
	char command[512];

	snprintf(command, sizeof(command), "PATH=$PATH:/sbin:/usr/sbin ip %s%s", arguments,
		 quiet ? " 2>/dev/null" : "");
	return system(command) == 0;
}
