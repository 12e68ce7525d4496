/* SPDX-License-Identifier: Apache-2.0 */
/* All pairs, round by round; see conduct.h. */
#include "conduct.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "rounds.h"
#include "tools/pair/wire.h"

#define SEND_MS  5000
#define FACTS_MS 40000
#define SERVE_MS 10000
#define PAIR_MS  160000 /* more than a worker takes at most */

struct band { /* everybody */
	struct node *nodes;
	size_t count;
	const struct conduct_options *o;
	json_t *links;
};

static void tell(const struct band *b, const char *what)
{
	fprintf(stderr, b->o->terminal ? "\r\033[K%s" : "%s\n", what);
}

static void lose(struct node *node, int ret)
{
	node_fail(node, ret == -ETIMEDOUT ? "its worker does not answer any more"
			: ret == -EPROTO  ? "its worker says what cannot be understood"
					  : "its worker has ended");
}

static void order(struct node *node, const struct order *o)
{
	int ret = node->fd >= 0 ? pair_send_new(node->fd, order_new(o), SEND_MS) : 0;

	if (ret)
		lose(node, ret);
}

/* The answer to the last order; NULL: there is none, and the worker is lost. */
static json_t *answer(struct node *node, uint64_t end)
{
	uint64_t now = pair_now_ms();
	json_t *reply = NULL;
	int ret = node->fd < 0 ? -ECONNRESET
			       : pair_recv(node->fd, &reply, now < end ? (int)(end - now) : 1);

	if (ret)
		lose(node, ret);
	return reply;
}

static void order_all(struct band *b, const struct order *o)
{
	for (size_t i = 0; i < b->count; i++)
		order(&b->nodes[i], o);
}

/* --- facts --- */

/* What the plugin would hand out: where others dial it, if that is more than the loopback interface. */
static void choose_address(struct node *node)
{
	const json_t *dev;
	size_t i;

	json_array_foreach(json_object_get(node->facts, "devices"), i, dev)
	{
		const char *address = pair_text(dev, "address");

		if (!*address || *address == '?' || !strncmp(address, "127.", 4) ||
		    !strncmp(address, "0.", 2) || !strcmp(address, "::1") || !strcmp(address, "::"))
			continue;
		if (strlen(address) < sizeof(node->address))
			strcpy(node->address, address);
		return;
	}
}

static void ask_facts(struct band *b)
{
	uint64_t end = pair_now_ms() + FACTS_MS;

	tell(b, "versions, settings, devices");
	order_all(b, &(struct order){ .op = ORDER_FACTS });
	for (size_t i = 0; i < b->count; i++) {
		struct node *node = &b->nodes[i];
		json_t *reply = answer(node, end);

		node->facts = json_incref(json_object_get(reply, "facts"));
		node->launcher = json_incref(json_object_get(reply, "launcher"));
		if (reply && !json_is_object(node->facts))
			node_fail(node, "its worker tells nothing of the host: %.100s",
				  pair_text(reply, "error"));
		json_decref(reply);
		choose_address(node);
	}
}

/* --- pairs --- */

static bool is_there(const struct node *a, const struct node *b)
{
	return a->fd >= 0 && b->fd >= 0;
}

static void start_servers(struct band *b, size_t round)
{
	uint64_t end;
	size_t client, server;

	for (size_t p = 0; p < rounds_pairs(b->count); p++) {
		if (rounds_pair(b->count, round, p, &client, &server))
			order(&b->nodes[server], &(struct order){ .op = ORDER_SERVE });
	}
	end = pair_now_ms() + SERVE_MS;
	for (size_t p = 0; p < rounds_pairs(b->count); p++) {
		json_t *reply;

		if (!rounds_pair(b->count, round, p, &client, &server) || b->nodes[server].fd < 0)
			continue;
		reply = answer(&b->nodes[server], end);
		if (*pair_text(reply, "error"))
			node_fail(&b->nodes[server], "its worker cannot serve: %.100s",
				  pair_text(reply, "error"));
		json_decref(reply);
	}
}

static void start_client(const struct band *b, struct node *client, const struct node *server)
{
	struct order o = {
		.op = ORDER_PAIR,
		.port = server->port,
		.dev = b->o->dev,
		.streams = b->o->streams,
		.ms = b->o->ms,
		.bytes = b->o->bytes,
	};

	strcpy(o.host, server->address);
	order(client, &o);
}

static void take_result(struct band *b, struct node *client, const struct node *server,
			uint64_t end)
{
	json_t *reply = answer(client, end);
	json_t *result = json_incref(json_object_get(reply, "result"));

	if (!reply)
		return;
	if (!json_is_object(result)) {
		json_decref(result);
		result = json_pack("{s:{s:s, s:s}}", "failure", "step", "measuring this pair",
				   "reason", pair_text(reply, "error"));
	}
	json_decref(reply);
	json_array_append_new(b->links, link_new(client->name, server->name, result));
}

static void play_round(struct band *b, size_t round)
{
	size_t client, server, pairs = 0;
	uint64_t end;
	char text[100];

	start_servers(b, round);
	for (size_t p = 0; p < rounds_pairs(b->count); p++) {
		if (!rounds_pair(b->count, round, p, &client, &server) ||
		    !is_there(&b->nodes[client], &b->nodes[server]))
			continue;
		start_client(b, &b->nodes[client], &b->nodes[server]);
		pairs++;
	}
	snprintf(text, sizeof(text), "round %zu of %zu: %zu pairs", round + 1,
		 rounds_count(b->count), pairs);
	tell(b, text);
	end = pair_now_ms() + PAIR_MS;
	for (size_t p = 0; p < rounds_pairs(b->count); p++) {
		if (rounds_pair(b->count, round, p, &client, &server) &&
		    is_there(&b->nodes[client], &b->nodes[server]))
			take_result(b, &b->nodes[client], &b->nodes[server], end);
	}
}

static void announce(const struct band *b)
{
	size_t there = 0;

	for (size_t i = 0; i < b->count; i++)
		there += b->nodes[i].fd >= 0;
	fprintf(stderr, "%s%zu hosts, %zu pairs in %zu rounds, up to %zu at once\n",
		b->o->terminal ? "\r\033[K" : "", there, there * (there - !!there) / 2,
		rounds_count(b->count), there / 2);
	if (b->o->ms)
		fprintf(stderr,
			"bandwidth test: %d runs for each pair, or twice as many with verbs, each of at "
			"most %.1f s and %.0f MB\n",
			b->o->streams > 1 ? 6 : 4, b->o->ms / 1e3, (double)b->o->bytes / 1e6);
}

static json_t *describe(const struct band *b)
{
	json_t *hosts = json_array();
	time_t now = time(NULL);
	struct tm utc;
	char when[40] = "";

	if (gmtime_r(&now, &utc))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
	for (size_t i = 0; i < b->count; i++) {
		const struct node *n = &b->nodes[i];

		json_array_append_new(hosts,
				      json_pack("{s:s, s:s, s:s, s:O?, s:O?}", "name", n->name,
						"address", n->address, "error", n->error, "facts",
						n->facts, "launcher", n->launcher));
	}
	return json_pack("{s:s, s:i, s:s, s:f, s:o, s:O}", "anynet", ANYNET_VERSION, "format",
			 MATRIX_FORMAT, "when", when, "seconds", b->o->ms / 1e3, "hosts", hosts,
			 "links", b->links);
}

json_t *conduct(struct node *nodes, size_t count, const struct conduct_options *options)
{
	struct band b = { nodes, count, options, json_array() };
	json_t *doc;

	ask_facts(&b);
	announce(&b);
	for (size_t round = 0; round < rounds_count(count); round++)
		play_round(&b, round);
	order_all(&b, &(struct order){ .op = ORDER_BYE });
	if (options->terminal)
		tell(&b, "");
	doc = describe(&b);
	for (size_t i = 0; i < count; i++) {
		node_end(&nodes[i]);
		json_decref(nodes[i].facts);
		json_decref(nodes[i].launcher);
	}
	json_decref(b.links);
	return doc;
}
