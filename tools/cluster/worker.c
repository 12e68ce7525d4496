/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of anynet cluster; see worker.h. Each measurement runs in a child process; the next order ends a server. */
#include "worker.h"

#include "live_facts.h"
#include "live_parts.h"
#include "tools/shared/stats/stats_dir.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_net/config.h>

#include "order.h"
#include "tools/hosts/launcher.h"
#include "tools/pair/client.h"
#include "tools/pair/server.h"
#include "tools/pair/task.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/child.h"
#include "transports/wire/allow.h"

static int open_listener(void *arg)
{
	static struct anynet_config cfg;
	struct cluster_worker *w = arg;
	struct server_options at = { .port = w->port };
	struct sockaddr_storage where;
	int last;

	anynet_config_load(&cfg, NULL);
	allow_start(cfg.allow);
	/* The only port of a range is left to the plugin. */
	if (!at.port && cfg.port_min < cfg.port_max)
		at.port = cfg.port_min;
	last = w->port || !at.port ? at.port : cfg.port_max;
	do {
		w->listener = server_listen(&at, &where);
	} while (w->listener < 0 && at.port++ < last);
	return w->listener < 0 ? w->listener : address_port(&where);
}

static void end_server(struct cluster_worker *w)
{
	if (w->server <= 0)
		return;
	kill(w->server, SIGKILL);
	waitpid(w->server, NULL, 0);
	w->server = 0;
}

static json_t *do_serve(struct cluster_worker *w, int control)
{
	const struct server_options o = { .plugin = w->plugin, .bare = true };
	pid_t parent = getpid();

	w->server = fork();
	if (w->server < 0)
		return json_pack("{s:s}", "error", strerror(errno));
	if (!w->server) {
		child_ends_with(parent);
		close(control);
		server_loop(w->listener, &o);
		_exit(0);
	}
	return json_object();
}

static json_t *gather(void *arg)
{
	static struct pair_host host; /* too large for a stack */

	pair_host_read(&host, arg);
	facts_ask_libraries(host.facts);
	return json_pack("{s:o, s:o}", "facts", host.facts, "launcher", launcher_gather());
}

static json_t *do_facts(const struct cluster_worker *w)
{
	return task_run(gather, (void *)(uintptr_t)w->plugin, ORDER_FACTS_MS,
			"the process that examines this host", -1);
}

struct measurement {
	const struct cluster_worker *w;
	const struct order *order;
};

static json_t *measure(void *arg)
{
	const struct measurement *e = arg;
	const struct client_options o = {
		.host = e->order->host,
		.port = e->order->port,
		.plugin = e->w->plugin,
		.measure = e->order->measure,
		.is_worker = true,
	};
	json_t *result = client_run(&o);

	/* The coordinator has the facts of the hosts and makes the findings itself. */
	json_object_del(result, "local");
	json_object_del(result, "remote");
	json_object_del(result, "findings");
	return result;
}

/* Returns the answer, or NULL if the coordinator has left. */
static json_t *do_pair(const struct cluster_worker *w, int control, const struct order *order)
{
	struct measurement measurement = { w, order };
	json_t *result =
		task_run(measure, &measurement, ORDER_PAIR_MS, "the measuring process", control);

	if (!result || json_object_get(result, "error"))
		return result;
	return json_pack("{s:o}", "result", result);
}

/* Sends all messages but the last, which it returns. */
static json_t *do_stats(int control)
{
	json_t *facts = live_facts(stats_dir()), *part;
	size_t row = 0;

	if (!facts)
		return json_pack("{s:s}", "error", "the statistics files cannot be read");
	part = live_part(facts, &row);
	while (json_is_true(json_object_get(part, "more"))) {
		if (pair_send_new(control, part, WORKER_SEND_MS)) {
			part = NULL;
			break;
		}
		part = live_part(facts, &row);
	}
	json_decref(facts);
	return part;
}

static int obey(void *arg, int control, const json_t *message)
{
	struct cluster_worker *w = arg;
	struct order order;
	json_t *reply;
	int ret = order_parse(message, &order);

	end_server(w);
	if (ret || order.op == ORDER_BYE)
		return ret ? -1 : 1;
	if (order.op == ORDER_FACTS)
		reply = do_facts(w);
	else if (order.op == ORDER_STATS)
		reply = do_stats(control);
	else if (order.op == ORDER_SERVE)
		reply = do_serve(w, control);
	else
		reply = do_pair(w, control, &order);
	return reply && !pair_send_new(control, reply, WORKER_SEND_MS) ? 0 : -1;
}

struct worker_options cluster_worker(struct cluster_worker *w)
{
	return (struct worker_options){ "anynet cluster", w->self, open_listener, obey, w };
}
