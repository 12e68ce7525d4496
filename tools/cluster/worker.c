/* SPDX-License-Identifier: Apache-2.0 */
/* The worker; see worker.h. Each measurement runs in a child process; the next order ends a server. */
#include "worker.h"

#include "live_facts.h"
#include "tools/shared/stats/stats_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_net/config.h>

#include "launcher.h"
#include "order.h"
#include "tools/pair/client.h"
#include "tools/pair/server.h"
#include "tools/pair/task.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/child.h"
#include "transports/wire/allow.h"

#define GREET_MS 30000
#define IDLE_MS \
	86400000 /* limit between two orders; 256 pairs are repeated one by one, with 160 s each */
#define REPLY_MS 10000
#define PUMPED   65536

struct worker {
	const struct worker_options *o;
	int control, listener, port;
	pid_t server; /* 0 = none */
};

static int open_listener(struct worker *w)
{
	static struct anynet_config cfg;
	struct server_options at = { .port = w->o->port };
	struct sockaddr_storage where;
	int last;

	anynet_config_load(&cfg, NULL);
	allow_start(cfg.allow);
	if (!at.port)
		at.port = cfg.port_min;
	last = w->o->port ? w->o->port : cfg.port_max;
	do {
		w->listener = server_listen(&at, &where);
	} while (w->listener < 0 && at.port++ < last);
	if (w->listener < 0)
		return -errno;
	w->port = address_port(&where);
	return 0;
}

static void end_server(struct worker *w)
{
	if (w->server <= 0)
		return;
	kill(w->server, SIGKILL);
	waitpid(w->server, NULL, 0);
	w->server = 0;
}

static json_t *do_serve(struct worker *w)
{
	const struct server_options o = { .plugin = w->o->plugin };
	pid_t parent = getpid();

	w->server = fork();
	if (w->server < 0)
		return json_pack("{s:s}", "error", strerror(errno));
	if (!w->server) {
		child_ends_with(parent);
		close(w->control);
		server_loop(w->listener, &o);
		_exit(0);
	}
	return json_object();
}

static json_t *gather(void *arg)
{
	static struct pair_host host; /* too large for a stack */

	pair_host_read(&host, arg);
	return json_pack("{s:o, s:o}", "facts", host.facts, "launcher", launcher_gather());
}

static json_t *do_facts(const struct worker *w)
{
	json_t *facts = task_run(gather, (void *)(uintptr_t)w->o->plugin, ORDER_FACTS_MS);

	return facts ? facts
		     : json_pack("{s:s}", "error", "the process that examines this host died");
}

struct measurement {
	const struct worker *w;
	const struct order *order;
};

static json_t *measure(void *arg)
{
	const struct measurement *e = arg;
	const struct client_options o = {
		.host = e->order->host,
		.port = e->order->port,
		.plugin = e->w->o->plugin,
		.measure = e->order->measure,
	};
	json_t *result = client_run(&o);

	/* The conductor has the facts of the hosts and makes the findings itself. */
	json_object_del(result, "local");
	json_object_del(result, "remote");
	json_object_del(result, "findings");
	return result;
}

/* Returns the answer, or NULL if the conductor has left. */
static json_t *do_pair(const struct worker *w, const struct order *order)
{
	uint64_t end = pair_now_ms() + ORDER_PAIR_MS;
	struct measurement measurement = { w, order };
	struct task task;
	json_t *result;
	int left, ret = task_start(&task, measure, &measurement);

	if (ret)
		return json_pack("{s:s}", "error", strerror(-ret));
	while ((left = pair_ms_until(end))) {
		struct pollfd pfds[] = { { .fd = task.out, .events = POLLIN },
					 { .fd = w->control, .events = POLLIN } };

		if (poll(pfds, 2, left) <= 0)
			continue;
		if (pfds[1].revents) {
			json_decref(task_end(&task));
			return NULL;
		}
		if (pfds[0].revents && task_read(&task))
			break;
	}
	result = task_end(&task);
	return result ? json_pack("{s:o}", "result", result)
		      : json_pack("{s:s}", "error",
				  "the measuring process ended without a result");
}

static json_t *do_stats(void)
{
	json_t *facts = live_facts(stats_dir());

	return facts ? json_pack("{s:o}", "stats", facts)
		     : json_pack("{s:s}", "error", "the statistics files cannot be read");
}

/* Carries out one order. Returns 0 to continue, 1 after bye, -1 if the conductor has left or sends an invalid order. */
static int handle_order(struct worker *w)
{
	struct order order;
	json_t *message, *reply = NULL;
	int ret = pair_recv(w->control, &message, IDLE_MS);

	if (ret)
		return -1;
	ret = order_parse(message, &order);
	json_decref(message);
	end_server(w);
	if (ret || order.op == ORDER_BYE)
		return ret ? -1 : 1;
	if (order.op == ORDER_FACTS)
		reply = do_facts(w);
	else if (order.op == ORDER_STATS)
		reply = do_stats();
	else if (order.op == ORDER_SERVE)
		reply = do_serve(w);
	else
		reply = do_pair(w, &order);
	return reply && !pair_send_new(w->control, reply, REPLY_MS) ? 0 : -1;
}

/* Silences the server and plugins: stdout may be the control connection, stderr the conductor's terminal. */
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

int worker_run(int control, const struct worker_options *options)
{
	struct worker w = { .o = options, .control = control };
	struct utsname host = { 0 };
	uint32_t version;
	int ret = pair_greet(control, true, &version, NULL, GREET_MS);

	if (!ret)
		ret = open_listener(&w);
	if (ret) {
		fprintf(stderr, "anynet cluster: this host cannot take part: %s\n",
			ret == -EPROTONOSUPPORT ? "the other end runs another version of anynet"
						: strerror(-ret));
		return 1;
	}
	uname(&host);
	silence_output();
	ret = pair_send_new(control, join_new(host.nodename, w.port), REPLY_MS);
	while (!ret)
		ret = handle_order(&w);
	end_server(&w);
	close(w.listener);
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

			poll(&pfd, 1, REPLY_MS);
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
	int ends[2], status = 1;
	pid_t parent = getpid(), pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	pid = fork();
	if (!pid) {
		child_ends_with(parent);
		close(ends[0]);
		close(STDIN_FILENO);
		open("/dev/null", O_RDONLY);
		_exit(worker_run(ends[1], options));
	}
	close(ends[1]);
	for (bool open = pid > 0; open;) {
		struct pollfd pfds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
					 { .fd = ends[0], .events = POLLIN } };

		if (poll(pfds, 2, -1) < 0 && errno != EINTR)
			break;
		if (pfds[1].revents)
			open = !pump(ends[0], STDOUT_FILENO);
		else if (pfds[0].revents)
			open = !pump(STDIN_FILENO, ends[0]);
	}
	if (pid > 0) {
		close(ends[0]);
		close(STDOUT_FILENO);
		if (waitpid(pid, &status, WNOHANG) != pid) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	}
	return status;
}
