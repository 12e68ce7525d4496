/* SPDX-License-Identifier: Apache-2.0 */
/* The worker; see worker.h. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "join.h"
#include "tools/pair/wire.h"
#include "tools/shared/child.h"

#define GREET_MS 30000
#define IDLE_MS \
	86400000 /* limit between two orders; 256 pairs are repeated one by one, with 160 s each */
#define PUMPED 65536

/* Silences the server and plugins: stdout may be the control connection, stderr the coordinator's terminal. */
static void silence_output(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDOUT_FILENO);
	if (!getenv("ANYNET_DEBUG"))
		dup2(null, STDERR_FILENO);
	close(null);
}

static int next_order(int control, const struct worker_options *o)
{
	json_t *order;
	int ret = pair_recv(control, &order, IDLE_MS) ? -1 : o->obey(o->arg, control, order);

	json_decref(order);
	return ret;
}

int worker_run(int control, const struct worker_options *o)
{
	struct utsname host = { 0 };
	uint32_t version;
	int port = 0, ret = pair_greet(control, true, &version, NULL, GREET_MS);

	if (!ret && o->begin)
		port = o->begin(o->arg);
	if (port < 0)
		ret = port;
	if (ret) {
		fprintf(stderr, "%s: this host cannot take part: %s\n", o->who,
			ret == -EPROTONOSUPPORT ? "the other end runs another version of anynet"
						: strerror(-ret));
		return 1;
	}
	uname(&host);
	silence_output();
	ret = pair_send_new(control, join_new(host.nodename, port), WORKER_SEND_MS);
	while (!ret)
		ret = next_order(control, o);
	return ret > 0 ? 0 : 1;
}

/* --- standard input and output --- */

static int pump(int from, int to)
{
	static char piece[PUMPED];
	ssize_t n = read(from, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	for (ssize_t at = 0, wrote; at < n; at += wrote) {
		wrote = write(to, piece + at, (size_t)(n - at));
		if (wrote < 0 && (errno == EAGAIN || errno == EINTR)) {
			struct pollfd pfd = { .fd = to, .events = POLLOUT };

			poll(&pfd, 1, WORKER_SEND_MS);
			wrote = 0;
		}
		if (wrote < 0)
			return -1;
	}
	return n > 0 ? 0 : -1;
}

/* Frames need a socket, but standard input and output may be pipes: a child runs the worker, this process copies. */
int worker_run_stdio(const struct worker_options *options)
{
	int fd, status = 1;
	pid_t parent = getpid(), pid;

	signal(SIGPIPE, SIG_IGN);
	pid = child_start(&fd, NULL);
	if (pid < 0)
		return 1;
	if (!pid) {
		child_ends_with(parent);
		close(STDIN_FILENO);
		open("/dev/null", O_RDONLY);
		_exit(worker_run(fd, options));
	}
	for (bool open = true; open;) {
		struct pollfd pfds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
					 { .fd = fd, .events = POLLIN } };

		if (poll(pfds, 2, -1) < 0 && errno != EINTR)
			break;
		if (pfds[1].revents)
			open = !pump(fd, STDOUT_FILENO);
		else if (pfds[0].revents)
			open = !pump(STDIN_FILENO, fd);
	}
	close(fd);
	close(STDOUT_FILENO);
	if (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
