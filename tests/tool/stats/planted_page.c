/* SPDX-License-Identifier: Apache-2.0 */
#include "planted_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

uint8_t planted_bytes[PLANTED_BYTES];

struct anynet_stats_process *planted_head(void)
{
	return (struct anynet_stats_process *)planted_bytes;
}

struct anynet_stats_comm *planted_comm(unsigned slot)
{
	return (struct anynet_stats_comm *)(planted_bytes + anynet_stats_comm_at(slot));
}

struct anynet_stats_events *planted_events(unsigned slot)
{
	return (struct anynet_stats_events *)(planted_bytes + anynet_stats_events_at(slot));
}

void planted_seal(void)
{
	planted_head()->sum = anynet_stats_sum(planted_head(), sizeof(*planted_head()));
	for (unsigned i = 0; i < PLANTED_COMMS; i++)
		planted_comm(i)->sum = anynet_stats_sum(planted_comm(i), sizeof(*planted_comm(i)));
	for (unsigned i = 0; i < PLANTED_COMMS; i++)
		planted_events(i)->sum = anynet_stats_sum(planted_events(i), sizeof(*planted_events(i)));
}

void planted_fill(uint32_t pid, uint32_t peer, unsigned comms)
{
	memset(planted_bytes, 0, sizeof(planted_bytes));
	*planted_head() = (struct anynet_stats_process){
		.magic = ANYNET_STATS_MAGIC,
		.version = ANYNET_STATS_VERSION,
		.comm_bytes = sizeof(struct anynet_stats_comm),
		.started_ms = 1,
		.written_ms = PLANTED_MS,
		.pid = pid,
		.comms = comms,
		.slots = comms,
		.host = "host-a",
		.job = "4711",
	};
	for (unsigned i = 0; i < comms; i++) {
		planted_comm(i)->id = i + 1;
		planted_comm(i)->is_send = 1;
		planted_comm(i)->stream_count = 1;
		planted_comm(i)->peer_pid = peer;
		strcpy(planted_comm(i)->peer_host, "host-a");
		planted_comm(i)->streams[0].kind = ANYNET_STATS_TCP;
		planted_comm(i)->streams[0].state = ANYNET_STATS_UP;
		planted_events(i)->id = i + 1;
		planted_events(i)->count = 1;
		planted_events(i)->events[0].kind = ANYNET_EVENT_OPENED;
		planted_events(i)->events[0].at_ms = 1;
	}
	planted_seal();
}

struct page planted_parse(void)
{
	struct page page;

	assert_int_equal(page_parse(&page, planted_bytes, sizeof(planted_bytes)), 0);
	page.read_ms = PLANTED_MS;
	return page;
}
