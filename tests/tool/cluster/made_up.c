/* SPDX-License-Identifier: Apache-2.0 */
/* Artificial runs; see made_up.h. */
#include "made_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char facts[] =
	"{'version': '1', 'wire': 3, 'nccl': '2.28.9', 'kernel': '6', 'env': {'NCCL_ALGO': 'Ring'},"
	" 'devices': [{'name': 'eth0', 'transport': 'TCP', 'speed_mbps': 10000,"
	" 'address': '10.0.0.1'}]}";

static const char measured[] =
	"{'ports': [{'to': 'server', 'state': 'ok'}],"
	" 'tcp': [{'to': 'server', 'state': 'ok', 'segments': 1000, 'retransmits': 0},"
	" {'to': 'client', 'state': 'ok', 'segments': 1000, 'retransmits': 0}],"
	" 'clock': {'offset_ns': 5, 'error_ns': 10}}";

json_t *made_up(const char *text)
{
	char *copy = strdup(text);
	json_t *json;

	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	json = json_loads(copy, JSON_DECODE_ANY, NULL);
	if (!json)
		abort();
	free(copy);
	return json;
}

json_t *made_up_run(size_t hosts)
{
	json_t *list = json_array(), *links = json_array();

	for (size_t a = 0; a < hosts; a++) {
		char name[32];

		snprintf(name, sizeof(name), "n%zu", a);
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:{}}", "name", name,
						      "address", "10.0.0.1", "error", "", "facts",
						      made_up(facts), "launcher"));
		for (size_t b = 0; b < a; b++) {
			char other[32];

			snprintf(other, sizeof(other), "n%zu", b);
			json_array_append_new(
				links,
				json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:[f, f], s:[f, f], s:o}",
					  "a", other, "b", name, "state", "ok", "path", "TCP", "us",
					  100.0, "us_least", 100.0, "mb_s", 1000.0, 1000.0, "lost",
					  0.0, 0.0, "measured", made_up(measured)));
		}
	}
	return json_pack("{s:s, s:i, s:s, s:o, s:o}", "anynet", "1", "format", 1, "when", "now",
			 "hosts", list, "links", links);
}

json_t *made_up_host(json_t *run, size_t host)
{
	return json_array_get(json_object_get(run, "hosts"), host);
}

json_t *made_up_facts(json_t *run, size_t host)
{
	return json_object_get(made_up_host(run, host), "facts");
}

json_t *made_up_link(json_t *run, size_t a, size_t b)
{
	size_t low = a < b ? a : b, high = a < b ? b : a;

	return json_array_get(json_object_get(run, "links"), high * (high - 1) / 2 + low);
}
