/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of anynet cluster --live; see live.h. */
#include "live.h"

#include <stdio.h>
#include <string.h>

#include "live_judge.h"
#include "live_parts.h"
#include "order.h"
#include "tools/pair/print.h"
#include "tools/pair/wire.h"
#include "tools/shared/document.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"
#include "tools/shared/output_args.h"
#include "tools/shared/terminal.h"

#define REPLY_MS 5000
#define LEAST_MS 1000 /* for each message, if the others have taken REPLY_MS */

static void send_all(struct node *nodes, size_t count, enum order_op op)
{
	for (size_t i = 0; i < count; i++)
		node_send(&nodes[i], order_new(&(struct order){ .op = op }));
}

/* Returns the facts that a worker reports in one or several messages, or NULL. */
static json_t *facts_of(struct node *node, uint64_t end)
{
	json_t *facts = NULL;
	bool more = true;

	for (int parts = 0; more && parts < LIVE_PARTS_MAX; parts++) {
		uint64_t least = now_ms() + LEAST_MS;
		json_t *reply = node_recv(node, end > least ? end : least);

		facts = live_join(facts, reply);
		more = facts && json_is_true(json_object_get(reply, "more"));
		json_decref(reply);
	}
	if (!more)
		return facts;
	node_fail(node, "its worker sent too many messages");
	json_decref(facts);
	return NULL;
}

/* Returns a list of objects with "name" and "facts"; "facts" is null if the host does not answer. */
static json_t *look(struct node *nodes, size_t count)
{
	uint64_t end = now_ms() + REPLY_MS;
	json_t *hosts = json_array();

	send_all(nodes, count, ORDER_STATS);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(hosts, json_pack("{s:s, s:o?}", "name", nodes[i].name,
						       "facts", facts_of(&nodes[i], end)));
	return hosts;
}

/* The ids and hosts of the findings. They are printed again only when these change. */
static json_t *summary_of(const json_t *findings)
{
	json_t *all = json_array();
	const json_t *finding;
	size_t i;

	json_array_foreach (findings, i, finding)
		json_array_append_new(all, json_pack("[s, O]", member_text(finding, "id"),
						     json_object_get(finding, "hosts")));
	return all;
}

static void show(const json_t *findings, json_t **last)
{
	struct terminal terminal = terminal_of(stdout);
	json_t *now = summary_of(findings);
	char when[NOW_UTC_BYTES];

	if (!*last || !json_equal(*last, now)) {
		print_line(stdout, "%s  %s", now_utc(when),
			   findings_status(findings) ? "jobs are delayed by:" : "nothing is wrong");
		print_findings(stdout, findings, &terminal);
	}
	json_decref(*last);
	*last = now;
}

static void show_json(const json_t *findings)
{
	char when[NOW_UTC_BYTES];
	json_t *all = document_new("cluster",
				   json_pack("{s:s, s:i, s:O}", "when", now_utc(when), "status",
					     findings_status(findings), "findings", findings));

	json_dumpf(all, stdout, JSON_COMPACT);
	printf("\n");
	fflush(stdout);
	json_decref(all);
}

int live_run(struct node *nodes, size_t count, const struct live_options *o)
{
	struct live *live = live_new();
	uint64_t begin = now_ms(), next = begin, every_ms = (uint64_t)o->every * 1000;
	json_t *last = NULL;
	int status = 2;

	while (!ferror(stdout)) {
		json_t *hosts = look(nodes, count), *findings = live_judge(live, hosts);

		status = findings_status(findings);
		if (output_is_json())
			show_json(findings);
		else
			show(findings, &last);
		json_decref(findings);
		json_decref(hosts);
		next += every_ms;
		if (!ms_until(next)) /* the look took longer: omit those that are overdue */
			next = now_ms() + every_ms;
		if (o->during && next > begin + (uint64_t)o->during * 1000)
			break;
		sleep_ms(ms_until(next));
	}
	send_all(nodes, count, ORDER_BYE);
	for (size_t i = 0; i < count; i++)
		node_end(&nodes[i]);
	json_decref(last);
	return status;
}
