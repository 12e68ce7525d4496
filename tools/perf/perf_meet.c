/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the side of a host's first rank; see perf_meet.h. */
#include "perf_meet.h"

#include <poll.h>
#include <string.h>

#include "tools/pair/wire.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"

const char *const perf_steps[] = { [PERF_READY] = "ready", [PERF_GO] = "go", [PERF_ROW] = "row" };

static json_t *slots_of(const struct perf_rank *r, int rank)
{
	json_t *list = json_array();

	for (int i = 0; i < PERF_RANKS_MAX; i++) {
		struct link_slot *slot = &r->area->slots[rank][i];
		char handle[HEX_TEXT(DRIVER_HANDLE_BYTES)];

		if (!atomic_load_explicit(&slot->ready, memory_order_acquire))
			continue;
		hex_print(slot->handle, DRIVER_HANDLE_BYTES, handle);
		json_array_append_new(list, json_pack("[i, i, s]", slot->sender, i, handle));
	}
	return json_pack("{s:s, s:i, s:o}", "step", "slots", "to", rank, "slots", list);
}

static int send_slots(const struct perf_rank *r)
{
	const struct group *g = r->group;
	int ret = 0;

	for (int rank = g->first; rank < g->first + g->here && !ret; rank++)
		ret = pair_send_new(r->coordinator, slots_of(r, rank), MEET_SEND_MS);
	return ret;
}

/* Handles of other hosts, for the links of all ranks of this one. */
static int take_slots(const struct perf_rank *r, const json_t *message)
{
	const struct group *g = r->group;
	int to = (int)member_int(message, "to", 0, g->size - 1, -1);
	const json_t *entry;
	size_t i;

	if (to < 0 || (to >= g->first && to < g->first + g->here))
		return -1;
	json_array_foreach (json_object_get(message, "slots"), i, entry) {
		json_int_t index = json_integer_value(json_array_get(entry, 1));
		const char *handle = json_string_value(json_array_get(entry, 2));
		struct link_slot *slot;

		if (index < 0 || index >= PERF_RANKS_MAX || !handle)
			return -1;
		slot = &r->area->slots[to][index];
		if (!hex_parse(handle, slot->handle, DRIVER_HANDLE_BYTES))
			return -1;
		atomic_store_explicit(&slot->ready, 1, memory_order_release);
	}
	return 0;
}

static json_t *ready_new(const struct perf_rank *r)
{
	const struct group *g = r->group;
	const struct perf_report *report = &r->area->report;
	json_t *places = json_array();

	for (int i = g->first; i < g->first + g->here; i++) {
		const struct perf_place *at = &report->places[i];

		json_array_append_new(places, json_pack("{s:i, s:s, s:i}", "pid", at->pid, "device",
							at->device, "speed_mbps", at->speed_mbps));
	}
	return json_pack("{s:s, s:s, s:s, s:i, s:o}", "step", perf_steps[PERF_READY], "net",
			 report->net, "path", report->path, "abi", report->abi, "places", places);
}

static json_t *row_new(const struct perf_rank *r)
{
	const struct group *g = r->group;
	json_t *times = json_array(), *wrong = json_array();

	for (int i = g->first; i < g->first + g->here; i++) {
		json_array_append_new(times, json_real(r->area->report.time_us[i]));
		json_array_append_new(wrong, json_integer((json_int_t)r->area->report.wrong[i]));
	}
	return json_pack("{s:s, s:o, s:o}", "step", perf_steps[PERF_ROW], "time_us", times, "wrong",
			 wrong);
}

static int tell(const struct perf_rank *r, enum perf_step step)
{
	json_t *message;

	if (step == PERF_READY && send_slots(r))
		return -1;
	if (step == PERF_READY)
		message = ready_new(r);
	else if (step == PERF_ROW)
		message = row_new(r);
	else
		message = json_pack("{s:s}", "step", perf_steps[PERF_GO]);
	return pair_send_new(r->coordinator, message, MEET_SEND_MS);
}

/* Takes one message. Returns 1 if it is the answer to `step`, 0 if more follow, or -1. */
static int take(const struct perf_rank *r, enum perf_step step)
{
	json_t *message;
	const char *name;
	int ret = pair_recv(r->coordinator, &message, MEET_FRAME_MS);

	if (ret)
		return -1;
	name = member_text(message, "step");
	if (!strcmp(name, perf_steps[step]))
		ret = 1;
	else
		ret = !strcmp(name, "slots") ? take_slots(r, message) : -1;
	json_decref(message);
	return ret;
}

/* Meets the other hosts. Waits as a rank does, so that it ends when another rank of its host has failed. */
static int meet_hosts(struct perf_rank *r, enum perf_step step)
{
	struct pollfd pfd = { .fd = r->coordinator, .events = POLLIN };
	int ret = tell(r, step);

	group_fed(r->group);
	while (!ret) {
		if (poll(&pfd, 1, 0) > 0)
			ret = take(r, step);
		else if (group_idle(r->group))
			return -GROUP_ERROR;
	}
	if (ret < 0)
		group_say(r->group, "the connection to the coordinator is lost");
	return ret < 0 ? -GROUP_ERROR : 0;
}

int perf_meet(struct perf_rank *r, enum perf_step step)
{
	struct group *g = r->group;

	if (group_barrier(g))
		return -GROUP_ERROR;
	if (r->coordinator < 0)
		return 0;
	if (g->rank == g->first && meet_hosts(r, step))
		return -GROUP_ERROR;
	return group_barrier(g) ? -GROUP_ERROR : 0;
}
