/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation of nftables rules; see firewall.h. The JSON format is libnftables-json(5). */
#include "firewall.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/member.h"
#include "transports/base/library.h"

#define OUTPUT_JSON (1u << 4)
#define DEPTH_MAX   16     /* nesting of chains, as in the kernel */
#define STEPS_MAX   200000 /* limit of work for one packet; container hosts have many rules */

/* --- reading --- */

struct nft_ctx;

/* Functions of libnftables.so.1, as in its ABI. */
struct functions {
	void *library;
	struct nft_ctx *(*make)(uint32_t flags);
	void (*end)(struct nft_ctx *ctx);
	int (*buffer_output)(struct nft_ctx *ctx);
	int (*buffer_error)(struct nft_ctx *ctx);
	const char *(*output)(struct nft_ctx *ctx);
	void (*set_flags)(struct nft_ctx *ctx, unsigned flags);
	int (*run)(struct nft_ctx *ctx, const char *command);
};

#define ENTRY(name, member)                                           \
	{                                                             \
		name, offsetof(struct functions, member), NULL, false \
	}

static const struct library_function wanted[] = {
	ENTRY("nft_ctx_new", make),
	ENTRY("nft_ctx_free", end),
	ENTRY("nft_ctx_buffer_output", buffer_output),
	ENTRY("nft_ctx_buffer_error", buffer_error),
	ENTRY("nft_ctx_get_output_buffer", output),
	ENTRY("nft_ctx_output_set_flags", set_flags),
	ENTRY("nft_run_cmd_from_buffer", run),
};

static json_t *list_rules(const struct functions *functions)
{
	struct nft_ctx *ctx = functions->make(0);
	json_t *rules = NULL;

	if (!ctx)
		return NULL;
	functions->set_flags(ctx, OUTPUT_JSON);
	if (!functions->buffer_output(ctx) && !functions->buffer_error(ctx) &&
	    !functions->run(ctx, "list ruleset"))
		rules = json_loads(functions->output(ctx), 0, NULL);
	functions->end(ctx);
	return rules;
}

json_t *firewall_read(void)
{
	struct functions functions;
	char why[256];
	json_t *rules;

	if (library_open("libnftables.so.1", wanted, ARRAY_SIZE(wanted), &functions, why,
			 sizeof(why)))
		return NULL;
	rules = list_rules(&functions);
	dlclose(functions.library);
	return rules;
}

/* --- does a rule match? --- */

enum match {
	NO,
	YES,
	MAYBE, /* depends on something unknown here: addresses, marks, rates … */
};

struct walk {
	const json_t *items;
	const struct firewall_packet *packet;
	const char *family, *table; /* of the base chain */
	unsigned steps;
	bool perhaps; /* a rule that matches MAYBE accepts the packet, or the step limit was reached */
};

static bool is_of(const json_t *item, const struct walk *walk)
{
	return !strcmp(member_text(item, "family"), walk->family) &&
	       !strcmp(member_text(item, "table"), walk->table);
}

static bool has_step(struct walk *walk)
{
	walk->perhaps |= walk->steps == STEPS_MAX;
	return walk->steps < STEPS_MAX && ++walk->steps;
}

static bool same_text(const char *pattern, const char *text)
{
	size_t length = strlen(pattern);

	if (length && pattern[length - 1] == '*')
		return !strncmp(pattern, text, length - 1);
	return !strcmp(pattern, text);
}

static enum match contains(struct walk *walk, const json_t *right, const char *text, int number,
			   int depth);

static enum match any_contains(struct walk *walk, const json_t *list, const char *text, int number,
			       int depth)
{
	enum match found = NO;

	for (size_t i = 0; found != YES && i < json_array_size(list); i++) {
		enum match each = contains(walk, json_array_get(list, i), text, number, depth + 1);

		found = each == NO ? found : each;
	}
	return found;
}

static enum match named_set_contains(struct walk *walk, const char *name, const char *text,
				     int number, int depth)
{
	for (size_t i = 0; i < json_array_size(walk->items) && has_step(walk); i++) {
		const json_t *set = json_object_get(json_array_get(walk->items, i), "set");

		if (set && is_of(set, walk) && !strcmp(member_text(set, "name"), name))
			return any_contains(walk, json_object_get(set, "elem"), text, number,
					    depth);
	}
	return MAYBE;
}

/* The packet's value has a text, a number, or both. */
static enum match contains(struct walk *walk, const json_t *right, const char *text, int number,
			   int depth)
{
	const json_t *range = json_object_get(right, "range"), *set = json_object_get(right, "set");
	const json_t *element = json_object_get(json_object_get(right, "elem"), "val");

	if (!has_step(walk) || depth > DEPTH_MAX)
		return MAYBE;
	if (json_is_integer(right))
		return json_integer_value(right) == number ? YES : NO;
	if (json_is_string(right) && *json_string_value(right) == '@')
		return named_set_contains(walk, json_string_value(right) + 1, text, number, depth);
	if (json_is_string(right))
		return !text ? MAYBE : same_text(json_string_value(right), text) ? YES : NO;
	if (json_is_array(right))
		return any_contains(walk, right, text, number, depth);
	if (set)
		return any_contains(walk, set, text, number, depth);
	if (element)
		return contains(walk, element, text, number, depth + 1);
	if (json_is_integer(json_array_get(range, 0)) && json_is_integer(json_array_get(range, 1)))
		return number >= json_integer_value(json_array_get(range, 0)) &&
				       number <= json_integer_value(json_array_get(range, 1))
			       ? YES
			       : NO;
	return MAYBE;
}

/* Looks up the packet's value for the left side of a match. NO: the packet has no such header. */
static enum match value_of(const struct walk *walk, const json_t *left, const char **text,
			   int *number)
{
	const json_t *payload = json_object_get(left, "payload");
	const char *protocol = member_text(payload, "protocol"),
		   *field = member_text(payload, "field");
	const char *meta = member_text(json_object_get(left, "meta"), "key");
	const char *ip = walk->packet->ipv6 ? "ip6" : "ip";

	*text = NULL;
	*number = -1;
	if (payload && strcmp(protocol, "tcp") != 0 && strcmp(protocol, "th") != 0 &&
	    strcmp(protocol, ip) != 0 && strcmp(protocol, "ether") != 0)
		return NO;
	if ((!strcmp(protocol, "tcp") || !strcmp(protocol, "th")) && !strcmp(field, "dport")) {
		*number = walk->packet->port;
	} else if ((!strcmp(protocol, ip) &&
		    (!strcmp(field, "protocol") || !strcmp(field, "nexthdr"))) ||
		   !strcmp(meta, "l4proto")) {
		*text = "tcp";
		*number = 6;
	} else if (!strcmp(meta, "iifname") || !strcmp(meta, "iif")) {
		*text = walk->packet->interface;
	} else if (!strcmp(meta, "nfproto")) {
		*text = walk->packet->ipv6 ? "ipv6" : "ipv4";
	} else if (!strcmp(member_text(json_object_get(left, "ct"), "key"), "state")) {
		*text = "new";
	} else {
		return MAYBE;
	}
	return YES;
}

static enum match matches(struct walk *walk, const json_t *match)
{
	const char *op = member_text(match, "op"), *text;
	int number;
	enum match found = value_of(walk, json_object_get(match, "left"), &text, &number);

	if (found != YES)
		return found;
	found = contains(walk, json_object_get(match, "right"), text, number, 0);
	if (!strcmp(op, "!=") && found != MAYBE)
		return found == YES ? NO : YES;
	return !strcmp(op, "==") || !strcmp(op, "in") || !strcmp(op, "!=") ? found : MAYBE;
}

/* --- chains --- */

enum outcome {
	NEXT,
	RETURN,
	ACCEPT,
	REJECT,
	DROP,
};

static enum outcome run_chain(struct walk *walk, const char *name, int depth);

/* Evaluates a verdict of a rule or of a verdict map. Sets *is_one to whether the statement is a verdict. */
static enum outcome verdict(struct walk *walk, const json_t *statement, int depth, bool *is_one)
{
	static const struct {
		const char *name;
		enum outcome outcome;
	} names[] = {
		{ "accept", ACCEPT }, { "drop", DROP },     { "reject", REJECT },
		{ "return", RETURN }, { "continue", NEXT },
	};
	const json_t *jump = json_object_get(statement, "jump"),
		     *go = json_object_get(statement, "goto");
	enum outcome outcome;

	*is_one = true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (json_object_get(statement, names[i].name))
			return names[i].outcome;
	*is_one = jump || go;
	if (!*is_one)
		return NEXT;
	outcome = run_chain(walk, member_text(jump ? jump : go, "target"), depth + 1);
	if (outcome == RETURN || outcome == NEXT)
		return jump ? NEXT : RETURN;
	return outcome;
}

/* Looks up the packet in a verdict map. */
static enum outcome look_up(struct walk *walk, const json_t *map, int depth, enum match *sure)
{
	const json_t *list = json_object_get(json_object_get(map, "data"), "set");
	const char *text;
	int number;
	bool is_one;
	enum match known = value_of(walk, json_object_get(map, "key"), &text, &number);

	for (size_t i = 0; known == YES && i < json_array_size(list); i++) {
		const json_t *pair = json_array_get(list, i);
		enum match found = contains(walk, json_array_get(pair, 0), text, number, 0);

		if (found == YES)
			return verdict(walk, json_array_get(pair, 1), depth, &is_one);
		known = found == MAYBE ? MAYBE : known;
	}
	if (known == MAYBE || !list) {
		*sure = MAYBE;
		return ACCEPT; /* for some packets */
	}
	return NEXT;
}

static bool is_harmless(const json_t *statement)
{
	static const char *const names[] = { "counter", "log", "comment", "notrack" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (json_object_get(statement, names[i]))
			return true;
	return false;
}

static enum outcome run_rule(struct walk *walk, const json_t *statements, int depth)
{
	enum match sure = YES;

	for (size_t i = 0; i < json_array_size(statements) && has_step(walk); i++) {
		const json_t *statement = json_array_get(statements, i);
		const json_t *match = json_object_get(statement, "match"),
			     *map = json_object_get(statement, "vmap");
		enum outcome outcome = NEXT;
		bool is_verdict = false;

		if (match) {
			enum match found = matches(walk, match);

			if (found == NO)
				return NEXT;
			sure = found == MAYBE ? MAYBE : sure;
			continue;
		}
		outcome = map ? look_up(walk, map, depth, &sure)
			      : verdict(walk, statement, depth, &is_verdict);
		if (outcome != NEXT && sure == YES)
			return outcome;
		walk->perhaps |= outcome == ACCEPT;
		if (!map && !is_verdict && !is_harmless(statement))
			sure = MAYBE;
	}
	return NEXT;
}

static enum outcome run_chain(struct walk *walk, const char *name, int depth)
{
	enum outcome outcome = NEXT;

	for (size_t i = 0; outcome == NEXT && depth <= DEPTH_MAX &&
			   i < json_array_size(walk->items) && has_step(walk);
	     i++) {
		const json_t *rule = json_object_get(json_array_get(walk->items, i), "rule");

		if (rule && is_of(rule, walk) && !strcmp(member_text(rule, "chain"), name))
			outcome = run_rule(walk, json_object_get(rule, "expr"), depth);
	}
	return outcome;
}

static enum firewall_verdict judge_chain(struct walk *walk, const json_t *chain)
{
	enum outcome outcome;

	walk->family = member_text(chain, "family");
	walk->table = member_text(chain, "table");
	walk->perhaps = false;
	outcome = run_chain(walk, member_text(chain, "name"), 0);
	if (outcome == NEXT || outcome == RETURN)
		outcome = strcmp(member_text(chain, "policy"), "drop") ? ACCEPT : DROP;
	if (outcome == ACCEPT)
		return FIREWALL_PASSES;
	return walk->perhaps     ? FIREWALL_PERHAPS
	       : outcome == DROP ? FIREWALL_DROPS
				 : FIREWALL_REJECTS;
}

static bool sees_packet(const json_t *chain, const struct firewall_packet *packet)
{
	const char *family = member_text(chain, "family");

	return !strcmp(member_text(chain, "hook"), "input") &&
	       !strcmp(member_text(chain, "type"), "filter") &&
	       (!strcmp(family, "inet") || !strcmp(family, packet->ipv6 ? "ip6" : "ip"));
}

enum firewall_verdict firewall_judge(const json_t *rules, const struct firewall_packet *packet,
				     char chain[FIREWALL_CHAIN_BYTES])
{
	struct walk walk = { .items = json_object_get(rules, "nftables"), .packet = packet };
	enum firewall_verdict worst = FIREWALL_PASSES;

	*chain = 0;
	for (size_t i = 0; i < json_array_size(walk.items); i++) {
		const json_t *each = json_object_get(json_array_get(walk.items, i), "chain");
		enum firewall_verdict verdict;

		if (!each || !sees_packet(each, packet))
			continue;
		verdict = judge_chain(&walk, each);
		if (verdict <= worst)
			continue;
		worst = verdict;
		snprintf(chain, FIREWALL_CHAIN_BYTES, "%s %s %s", member_text(each, "family"),
			 member_text(each, "table"), member_text(each, "name"));
	}
	return worst;
}
