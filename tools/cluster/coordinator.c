/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator; see coordinator.h. */
#include "coordinator.h"

#include <stdio.h>
#include <string.h>

#include "judge.h"
#include "order.h"
#include "rounds.h"
#include "tools/pair/facts.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/member.h"
#include "tools/shared/output_args.h"

#define SLACK_MS 10000 /* added to a worker's own time limit */
#define SERVE_MS 10000

#define REPEATS_MIN 6 /* this many pairs are always repeated; more only up to the number of hosts */

struct run { /* all workers and their results */
	struct node *nodes;
	size_t count;
	const struct coordinator_options *o;
	json_t *links;
};

static void print_progress(const struct run *run, const char *what)
{
	if (!output_is_quiet())
		fprintf(stderr, run->o->terminal ? "\r\033[K%s" : "%s\n", what);
}

static void send_order_all(struct run *run, const struct order *o)
{
	for (size_t i = 0; i < run->count; i++)
		node_send(&run->nodes[i], order_new(o));
}

/* --- facts --- */

/* Other hosts dial the address of the first device that is not a loopback interface, as with the plugin. */
static void choose_address(struct node *node)
{
	const json_t *dev;
	size_t i;

	json_array_foreach (json_object_get(node->facts, "devices"), i, dev) {
		const char *address = member_text(dev, "address");

		if (!address_is_dialled(address))
			continue;
		if (strlen(address) < sizeof(node->address))
			strcpy(node->address, address);
		return;
	}
}

static void reject_facts(struct node *node)
{
	node_fail(node, "its worker reports invalid facts about the host");
	json_decref(node->facts);
	node->facts = NULL;
}

static void ask_facts(struct run *run)
{
	uint64_t end = now_ms() + ORDER_FACTS_MS + SLACK_MS;

	print_progress(run, "versions, settings, devices");
	for (size_t i = 0; i < run->count; i++) {
		if (run->nodes[i].fd >= 0 && !run->nodes[i].port)
			node_fail(&run->nodes[i],
				  "its worker did not send the port on which it serves pairs");
	}
	send_order_all(run, &(struct order){ .op = ORDER_FACTS });
	for (size_t i = 0; i < run->count; i++) {
		struct node *node = &run->nodes[i];
		json_t *reply = node_recv(node, end);

		node->facts = json_incref(json_object_get(reply, "facts"));
		node->launcher = json_incref(json_object_get(reply, "launcher"));
		if (reply && !json_is_object(node->facts))
			node_fail(node, "facts about the host are missing: %.100s",
				  member_text(reply, "error"));
		else if (reply &&
			 (!facts_within_bounds(node->facts) || !facts_are_short(node->launcher)))
			reject_facts(node);
		json_decref(reply);
		choose_address(node);
	}
}

/* --- pairs --- */

struct pair { /* a pair to measure */
	struct node *client, *server;
	json_t *again; /* the link of an earlier measurement, to be improved; or NULL */
};

static bool is_connected(const struct pair *pair)
{
	return pair->client->fd >= 0 && pair->server->fd >= 0;
}

static void start_servers(const struct pair *pairs, size_t count)
{
	uint64_t end;

	for (size_t i = 0; i < count; i++)
		node_send(pairs[i].server, order_new(&(struct order){ .op = ORDER_SERVE }));
	end = now_ms() + SERVE_MS;
	for (size_t i = 0; i < count; i++) {
		struct node *server = pairs[i].server;
		json_t *reply = node_recv(server, end);

		if (*member_text(reply, "error"))
			node_fail(server, "its worker cannot serve: %.100s",
				  member_text(reply, "error"));
		json_decref(reply);
	}
}

static void start_client(const struct run *run, struct node *client, const struct node *server)
{
	struct order o = {
		.op = ORDER_PAIR,
		.port = server->port,
		.measure = run->o->measure,
	};

	strcpy(o.host, server->address);
	node_send(client, order_new(&o));
}

static void take_result(struct run *run, const struct pair *pair, uint64_t end)
{
	json_t *reply = node_recv(pair->client, end), *link;
	json_t *result = json_incref(json_object_get(reply, "result"));

	if (!reply)
		return;
	if (!json_is_object(result)) {
		json_decref(result);
		result = json_pack("{s:{s:s, s:s}}", "failure", "step", "measuring this pair",
				   "reason", member_text(reply, "error"));
	}
	json_decref(reply);
	link = link_new(pair->client->name, pair->server->name, result);
	if (pair->again)
		link_improve(pair->again, link);
	else
		json_array_append_new(run->links, link);
}

/* Measures pairs at the same time. No host may be in two of them. */
static void measure_pairs(struct run *run, const struct pair *pairs, size_t count, const char *text)
{
	uint64_t end;

	start_servers(pairs, count);
	for (size_t i = 0; i < count; i++) {
		if (is_connected(&pairs[i]))
			start_client(run, pairs[i].client, pairs[i].server);
	}
	print_progress(run, text);
	end = now_ms() + ORDER_PAIR_MS + SLACK_MS;
	for (size_t i = 0; i < count; i++) {
		if (is_connected(&pairs[i]))
			take_result(run, &pairs[i], end);
	}
}

static void measure_round(struct run *run, size_t round)
{
	struct pair pairs[HOSTS_MAX / 2];
	size_t client, server, count = 0;
	char text[100];

	for (size_t p = 0; p < rounds_pairs(run->count); p++) {
		struct pair *pair = &pairs[count];

		if (!rounds_pair(run->count, round, p, &client, &server))
			continue;
		*pair = (struct pair){ &run->nodes[client], &run->nodes[server], NULL };
		count += is_connected(pair);
	}
	snprintf(text, sizeof(text), "round %zu of %zu: %zu pair%s", round + 1,
		 rounds_count(run->count), count, count == 1 ? "" : "s");
	measure_pairs(run, pairs, count, text);
}

static struct node *node_of(const struct run *run, const char *name)
{
	size_t i = 0;

	while (strcmp(run->nodes[i].name, name) != 0)
		i++;
	return &run->nodes[i];
}

/* Repeats slow and lossy pairs one at a time, so that a momentary load is not reported. */
static void repeat_unclear(struct run *run, const json_t *doc)
{
	json_t *unclear = judge_unclear(doc, run->o->before), *hosts;
	size_t count = json_array_size(unclear), i;
	struct matrix m;
	const char *why;
	char text[100];

	if (count > REPEATS_MIN && count > run->count)
		count = 0; /* too many for a momentary load of one host */
	if (matrix_read(doc, &m, &why))
		count = 0;
	json_array_foreach (unclear, i, hosts) {
		const struct cell *cell;
		struct pair pair;

		if (i == count)
			break;
		cell = matrix_at(&m, (size_t)json_integer_value(json_array_get(hosts, 0)),
				 (size_t)json_integer_value(json_array_get(hosts, 1)));
		pair.again = (json_t *)(uintptr_t)cell->link; /* an element of run->links */
		pair.client = node_of(run, member_text(cell->link, "a"));
		pair.server = node_of(run, member_text(cell->link, "b"));
		snprintf(text, sizeof(text), "repeat %zu of %zu", i + 1, count);
		if (is_connected(&pair))
			measure_pairs(run, &pair, 1, text);
	}
	json_decref(unclear);
}

static void announce(const struct run *run)
{
	size_t there = 0, pairs;

	if (output_is_quiet())
		return;
	for (size_t i = 0; i < run->count; i++)
		there += run->nodes[i].fd >= 0;
	pairs = there * (there - !!there) / 2;
	fprintf(stderr, "%s%zu host%s, %zu pair%s in %zu rounds, up to %zu at once\n",
		run->o->terminal ? "\r\033[K" : "", there, there == 1 ? "" : "s", pairs,
		pairs == 1 ? "" : "s", rounds_count(run->count), there / 2);
	if (run->o->measure.ms)
		fprintf(stderr,
			"bandwidth test: %d runs per pair, twice as many with verbs, each "
			"limited to %.1f s and %.0f MB\n",
			run->o->measure.streams > 1 ? 6 : 4, run->o->measure.ms / 1e3,
			(double)run->o->measure.bytes / 1e6);
}

static json_t *describe(const struct run *run)
{
	json_t *hosts = json_array();
	char when[NOW_UTC_BYTES];

	for (size_t i = 0; i < run->count; i++) {
		const struct node *n = &run->nodes[i];

		json_array_append_new(hosts,
				      json_pack("{s:s, s:s, s:s, s:O?, s:O?}", "name", n->name,
						"address", n->address, "error", n->error, "facts",
						n->facts, "launcher", n->launcher));
	}
	return json_pack("{s:s, s:i, s:s, s:f, s:o, s:O}", "anynet", ANYNET_VERSION, "format",
			 MATRIX_FORMAT, "when", now_utc(when), "seconds", run->o->measure.ms / 1e3,
			 "hosts", hosts, "links", run->links);
}

json_t *coordinate(struct node *nodes, size_t count, const struct coordinator_options *options)
{
	struct run run = { nodes, count, options, json_array() };
	json_t *doc;

	ask_facts(&run);
	announce(&run);
	for (size_t round = 0; round < rounds_count(count); round++)
		measure_round(&run, round);
	doc = describe(&run);
	repeat_unclear(&run, doc);
	json_decref(doc);
	if (options->terminal)
		print_progress(&run, "");
	doc = describe(&run);
	/* After the description: a worker that has ended by now has measured everything. */
	send_order_all(&run, &(struct order){ .op = ORDER_BYE });
	for (size_t i = 0; i < count; i++) {
		node_end(&nodes[i]);
		json_decref(nodes[i].facts);
		json_decref(nodes[i].launcher);
	}
	json_decref(run.links);
	return doc;
}
