/* SPDX-License-Identifier: Apache-2.0 */
/* Orders for other processes on a wire, over the sockets at which they listen for packets. Needs no open device, and no
 * description. */
#include "fake.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 150 /* longer than a machine stands still */

static int pid_in(const char *directory, unsigned slot)
{
	char path[256];
	int pid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%u.lock", directory, slot);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid;
}

static int receive_all(int fd, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t got = recv(fd, (char *)to + done, bytes - done, 0);

		if (got <= 0)
			return got ? -errno : -EPIPE;
		done += (size_t)got;
	}
	return 0;
}

static int converse(int fd, const char *text, struct message *answer)
{
	struct timeval patience = { .tv_sec = PATIENCE_S };
	struct message message = { .kind = MESSAGE_COMMAND, .bytes = strlen(text) + 1 };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) != (ssize_t)sizeof(message) ||
	    send(fd, text, (size_t)message.bytes, MSG_NOSIGNAL) != (ssize_t)message.bytes)
		return -errno;
	return receive_all(fd, answer, sizeof(*answer));
}

static int order(const char *directory, unsigned slot, const char *text, struct message *answer)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };
	int fd, ret;

	if (snprintf(place.sun_path, sizeof(place.sun_path), "%s/%u.sock", directory, slot) >=
	    (int)sizeof(place.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	ret = connect(fd, (struct sockaddr *)(void *)&place, sizeof(place)) ? -errno : 0;
	if (!ret)
		ret = converse(fd, text, answer);
	close(fd);
	return ret ? ret : answer->ret;
}

/* The number that have obeyed; `counts` is that of the last. */
static int order_all(const char *directory, int pid, const char *text,
		     struct fake_verbs_counts *counts)
{
	DIR *dir = opendir(directory);
	struct message answer;
	struct dirent *entry;
	int obeyed = 0;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		unsigned slot;
		char suffix[8];
		int owner;

		if (sscanf(entry->d_name, "%u.%7s", &slot, suffix) != 2 || strcmp(suffix, "lock"))
			continue;
		owner = pid_in(directory, slot);
		if (!owner || (pid ? owner != pid : owner == getpid()) ||
		    order(directory, slot, text, &answer))
			continue;
		obeyed++;
		*counts = answer.counts;
	}
	closedir(dir);
	return obeyed;
}

int fake_verbs_tell(const char *directory, int pid, const char *text)
{
	struct fake_verbs_counts unused;

	return order_all(directory, pid, text, &unused);
}

int fake_verbs_ask(const char *directory, int pid, struct fake_verbs_counts *counts)
{
	int ret = order_all(directory, pid, "", counts);

	return ret == 1 ? 0 : ret < 0 ? ret : -ESRCH;
}
