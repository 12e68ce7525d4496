/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of `anynet cluster`: JSON as an order to a worker, as a join, as a pair's result, and as a saved run. Accepted
 * input must be within bounds, and reports must be text.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "tools/cluster/judge.h"
#include "tools/cluster/matrix.h"
#include "tools/cluster/order.h"
#include "tools/cluster/print.h"
#include "tools/hosts/join.h"
#include "tools/pair/dial.h"
#include "tools/pair/traffic.h"
#include "tools/shared/memory.h"

static void check_orders(const json_t *message)
{
	char name[HOST_NAME];
	struct order o;
	const struct measure *m = &o.measure;
	int port;

	if (!order_parse(message, &o) && o.op == ORDER_PAIR)
		must(*o.host && o.port >= 1 && o.port <= 65535 && m->dev >= 0 && m->streams >= 1 &&
		     m->streams <= TRAFFIC_CHANNELS_MAX && m->ms >= 0 && m->ms <= DIAL_MS_MAX &&
		     m->bytes >= 1 && m->bytes <= DIAL_BYTES_MAX);
	if (!join_parse(message, name, &port))
		must(host_name_is_good(name) && (!port || port >= 1024) && port <= 65535);
}

static char *report(const json_t *doc, void (*print)(const json_t *doc, FILE *out))
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	must(out != NULL);
	print(doc, out);
	must(!fclose(out) && strlen(text) == bytes);
	for (const char *c = text; *c; c++)
		must((unsigned char)*c >= ' ' || *c == '\n');
	return text;
}

static void print_plain(const json_t *doc, FILE *out)
{
	cluster_print(doc, out, &(struct terminal){ .width = 60 });
}

/* The number of elements is chosen here. */
static size_t count(const char *text, const char *what)
{
	size_t found = 0;

	for (; (text = strstr(text, what)); text++)
		found++;
	return found;
}

static void check_run(json_t *doc)
{
	json_t *findings = judge(doc, doc), *unclear = judge_unclear(doc, doc);
	char *page;

	must(json_is_array(findings) && json_is_array(unclear));
	json_object_set_new(doc, "findings", findings);
	free(report(doc, print_plain));
	page = report(doc, cluster_html);
	must(count(page, "<script") == 1 && count(page, "<section") == json_array_size(findings));
	free(page);
	json_decref(unclear);
}

/* The second of two gets the name of the first. */
static void check_results(json_t *result)
{
	json_t *hosts = json_pack("[{s:s}, {s:s}]", "name", "a", "name", "b");
	json_t *link = link_new("a", "b", json_incref(result));
	json_t *doc = json_pack("{s:i, s:o, s:[O]}", "format", MATRIX_FORMAT, "hosts", hosts,
				"links", link);

	must(json_array_size(json_object_get(json_object_get(link, "measured"), "ports")) <=
	     LINK_PORTS);
	link_improve(link, link_new("b", "a", json_incref(result)));
	check_run(doc);
	json_decref(link);
	json_decref(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	json_t *message = json_loadb((const char *)data, bytes, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(message)) {
		check_orders(message);
		check_results(message);
		check_run(message);
	}
	json_decref(message);
	memory_release(0);
	return 0;
}
