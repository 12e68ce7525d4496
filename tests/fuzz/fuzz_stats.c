/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics files of another process. The first byte says whether the records get correct checksums, without which
 * nearly all are rejected, and whether each comm has events; the records follow, cut or padded with zeros. Output must
 * be text, and metrics must be valid for Prometheus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "tool/stats/exposition.h"
#include "tools/export/metrics.h"
#include "tools/shared/stats/print.h"

#define COMMS 3
#define BYTES (ANYNET_STATS_COMMS_AT + COMMS * ANYNET_STATS_COMM_STEP)

static void seal(uint8_t *record, size_t bytes)
{
	uint64_t sum = anynet_stats_sum(record, bytes);

	memcpy(record, &sum, sizeof(sum));
}

static size_t take(uint8_t *to, size_t room, const uint8_t **data, size_t *bytes)
{
	size_t n = *bytes < room ? *bytes : room;

	memcpy(to, *data, n);
	*data += n;
	*bytes -= n;
	return n;
}

static void print(const struct page_list *list)
{
	struct print_style style = { .width = 80, .streams = true };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct view view;

	must(out);
	view_make(&view, list, list);
	print_view(&view, &style, out);
	print_view_json(&view, "top", out);
	print_dump(&view, &(struct terminal){ .width = 60 }, out);
	must(!fclose(out) && strlen(text) == size);
	for (const char *at = text; *at; at++)
		must((*at >= ' ' && *at <= '~') || *at == '\n');
	view_free(&view);
	free(text);
}

/* Also the same process twice. */
static void export(struct page *page)
{
	struct page pages[2] = { *page, *page };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	must(out);
	metrics_write(&(struct page_list){ .pages = pages, .count = 2 }, out);
	must(!fclose(out) && !exposition_check(text));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static uint8_t memory[BYTES];
	struct anynet_stats_process *head = (struct anynet_stats_process *)memory;
	struct page page;
	size_t count;
	bool sealed, happened;

	if (!bytes)
		return 0;
	sealed = data[0] & 1;
	happened = data[0] & 2;
	data++;
	bytes--;
	memset(memory, 0, sizeof(memory));
	count = take(memory, sizeof(*head), &data, &bytes);
	if (sealed) {
		head->magic = ANYNET_STATS_MAGIC;
		head->version = ANYNET_STATS_VERSION;
		head->comm_bytes = sizeof(struct anynet_stats_comm);
		seal(memory, sizeof(*head));
		count = sizeof(*head);
	}
	for (unsigned i = 0; i < COMMS && bytes; i++) {
		size_t at = anynet_stats_comm_at(i);

		count = at + take(memory + at, sizeof(struct anynet_stats_comm), &data, &bytes);
		if (sealed) {
			seal(memory + at, sizeof(struct anynet_stats_comm));
			count = at + sizeof(struct anynet_stats_comm);
		}
		if (!happened)
			continue;
		at = anynet_stats_events_at(i);
		count = at + take(memory + at, sizeof(struct anynet_stats_events), &data, &bytes);
		if (sealed) {
			seal(memory + at, sizeof(struct anynet_stats_events));
			count = at + sizeof(struct anynet_stats_events);
		}
	}
	if (page_parse(&page, memory, count))
		return 0;
	print(&(struct page_list){ .pages = &page, .count = 1 });
	export(&page);
	page_free(&page);
	return 0;
}
