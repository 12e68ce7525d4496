/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf over several hosts: the coordinator; see perf_coordinator.h, and perf_meet.h for the messages. */
#include "perf_coordinator.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <string.h>

#include "perf_args.h"
#include "perf_meet.h"
#include "tools/pair/print.h"
#include "tools/pair/wire.h"
#include "tools/shared/clean.h"
#include "tools/shared/hex.h"
#include "tools/shared/judge/compare.h"
#include "tools/shared/member.h"
#include "tools/shared/memory.h"

#define DRAIN_MS 3000 /* after a failure, time for the other hosts to report theirs */

struct host {
	struct node *node;
	int first;       /* its first rank */
	json_t *message; /* its step, not yet answered; NULL = its ranks work */
	json_t *slots;   /* its messages of that name */
	bool has_ended;
	int status; /* of its ranks, a GROUP_ code */
};

struct run {
	const struct perf_options *o;
	struct host hosts[HOSTS_MAX];
	size_t count;
	size_t bytes;    /* size of the next row */
	uint64_t end_ms; /* 0 = no host has failed */
	struct perf_report report;
};

static void fail(struct run *run, const struct host *h, const char *why)
{
	print_line(stderr, "anynet perf: %s: %s", h->node->name, why);
	if (!run->end_ms)
		run->end_ms = now_ms() + DRAIN_MS;
}

/* There is no worker any more, or it sends what it should not. */
static void lose(struct run *run, struct host *h)
{
	node_fail(h->node, "its worker sent an invalid message");
	h->has_ended = true;
	h->status = GROUP_ERROR;
	fail(run, h, h->node->error);
}

/* --- messages of a host --- */

static void ranks_ended(struct run *run, struct host *h, const json_t *message)
{
	h->has_ended = true;
	h->status = (int)member_int(message, "status", GROUP_OK, GROUP_WRONG, GROUP_ERROR);
	if (h->status == GROUP_ERROR)
		fail(run, h, "its ranks have ended");
}

static bool is_slot(const json_t *entry)
{
	const char *handle = json_string_value(json_array_get(entry, 2));
	const json_t *sender = json_array_get(entry, 0), *index = json_array_get(entry, 1);
	unsigned char bytes[DRIVER_HANDLE_BYTES];

	return json_is_integer(sender) && json_is_integer(index) &&
	       json_integer_value(index) >= 0 && json_integer_value(index) < PERF_RANKS_MAX &&
	       handle && hex_parse(handle, bytes, sizeof(bytes));
}

/* Checked here, because other hosts get them. */
static int keep_slots(const struct run *run, struct host *h, json_t *message)
{
	const json_t *entry;
	size_t i;

	if (json_array_size(h->slots) == (size_t)run->o->here ||
	    member_int(message, "to", h->first, h->first + run->o->here - 1, -1) < 0)
		return -1;
	json_array_foreach (json_object_get(message, "slots"), i, entry) {
		if (!is_slot(entry))
			return -1;
	}
	return json_array_append(h->slots, message);
}

/* Returns -1 if the host should not have sent it. */
static int keep(const struct run *run, struct host *h, json_t *message)
{
	if (!strcmp(member_text(message, "step"), "slots"))
		return keep_slots(run, h, message);
	if (h->message)
		return -1;
	h->message = json_incref(message);
	return 0;
}

static void take(struct run *run, struct host *h)
{
	json_t *message = node_recv(h->node, now_ms() + MEET_FRAME_MS);
	const char *step = member_text(message, "step");

	if (!message)
		return;
	if (!strcmp(step, "said"))
		print_line(stderr, "%s: %s", h->node->name, member_text(message, "text"));
	else if (!strcmp(step, "ended"))
		ranks_ended(run, h, message);
	else if (keep(run, h, message))
		lose(run, h);
	json_decref(message);
}

static bool is_awaited(const struct host *h)
{
	return !h->message && !h->has_ended;
}

/* Waits until each host has sent its step, or has ended. Returns 0, or -1 if one has failed. */
static int gather(struct run *run)
{
	for (;;) {
		struct pollfd pfds[HOSTS_MAX];
		size_t open = 0;
		int ret;

		for (size_t i = 0; i < run->count; i++) {
			struct host *h = &run->hosts[i];

			if (!h->has_ended && h->node->fd < 0)
				lose(run, h);
			/* Ranks that wait for others may give up. */
			pfds[i] = (struct pollfd){ .fd = h->has_ended ? -1 : h->node->fd,
						   .events = POLLIN };
			open += is_awaited(h);
		}
		if (!open)
			return run->end_ms ? -1 : 0;
		ret = poll(pfds, run->count, run->end_ms ? ms_until(run->end_ms) : -1);
		if (!ret || (ret < 0 && errno != EINTR))
			return -1;
		for (size_t i = 0; i < run->count && ret > 0; i++) {
			if (pfds[i].revents)
				take(run, &run->hosts[i]);
		}
	}
}

/* --- steps --- */

static void set_text(char *to, size_t room, const char *text)
{
	clean(to, room, text, strlen(text));
}

static int read_places(struct run *run, const struct host *h)
{
	struct perf_report *report = &run->report;
	const json_t *places = json_object_get(h->message, "places"), *place;
	size_t i;

	if (json_array_size(places) != (size_t)run->o->here ||
	    json_array_size(h->slots) != (size_t)run->o->here)
		return -1;
	json_array_foreach (places, i, place) {
		struct perf_place *at = &report->places[(size_t)h->first + i];

		at->pid = (int)member_int(place, "pid", 1, INT32_MAX, 0);
		at->speed_mbps = (int)member_int(place, "speed_mbps", 0, INT32_MAX, 0);
		set_text(at->host, sizeof(at->host), h->node->name);
		set_text(at->device, sizeof(at->device), member_text(place, "device"));
	}
	if (h->first)
		return 0;
	set_text(report->net, sizeof(report->net), member_text(h->message, "net"));
	set_text(report->path, sizeof(report->path), member_text(h->message, "path"));
	report->abi = (int)member_int(h->message, "abi", 0, 99, 0);
	return 0;
}

static int read_row(struct run *run, const struct host *h)
{
	for (int i = 0; i < run->o->here; i++) {
		const json_t *times = json_object_get(h->message, "time_us");
		double time = json_number_value(json_array_get(times, (size_t)i));
		const json_t *wrong =
			json_array_get(json_object_get(h->message, "wrong"), (size_t)i);

		if (!isfinite(time) || time <= 0 || !json_is_integer(wrong))
			return -1;
		run->report.time_us[h->first + i] = time;
		run->report.wrong[h->first + i] = (uint64_t)json_integer_value(wrong);
	}
	return 0;
}

/* Tells the ranks of `to` where a rank of another host listens. */
static void forward(const struct run *run, const struct host *to, const json_t *message)
{
	json_t *list = json_array();
	const json_t *entry;
	size_t i;

	json_array_foreach (json_object_get(message, "slots"), i, entry) {
		json_int_t sender = json_integer_value(json_array_get(entry, 0));

		if (sender >= to->first && sender < to->first + run->o->here)
			json_array_append(list, (json_t *)(uintptr_t)entry);
	}
	node_send(to->node, json_pack("{s:s, s:O, s:o}", "step", "slots", "to",
				      json_object_get(message, "to"), "slots", list));
}

static void forward_all(const struct run *run, const struct host *to)
{
	const json_t *message;
	size_t i;

	for (size_t h = 0; h < run->count; h++) {
		if (&run->hosts[h] == to)
			continue;
		json_array_foreach (run->hosts[h].slots, i, message)
			forward(run, to, message);
	}
}

static int read_step(struct run *run, const struct host *h, const char *step)
{
	if (!h->message || strcmp(member_text(h->message, "step"), step) != 0)
		return -1;
	if (!strcmp(step, perf_steps[PERF_READY]))
		return read_places(run, h);
	return strcmp(step, perf_steps[PERF_ROW]) != 0 ? 0 : read_row(run, h);
}

static void print_step(struct run *run, const char *step)
{
	struct perf_row row;

	if (!strcmp(step, perf_steps[PERF_READY]))
		perf_print_head(run->o, &run->report);
	if (strcmp(step, perf_steps[PERF_ROW]) != 0)
		return;
	row = perf_row(run->o, &run->report, perf_count(run->o, run->bytes));
	perf_print_row(run->o, &row);
	run->bytes = perf_next_size(run->o, run->bytes);
}

/* Lets the ranks of a host go on. */
static void answer(const struct run *run, const struct host *h, const char *step)
{
	if (!strcmp(step, perf_steps[PERF_READY]))
		forward_all(run, h);
	node_send(h->node, json_pack("{s:s}", "step", step));
}

/* All ranks have met. */
static void do_step(struct run *run)
{
	char step[16];

	snprintf(step, sizeof(step), "%s", member_text(run->hosts[0].message, "step"));
	for (size_t i = 0; i < run->count; i++) {
		if (!read_step(run, &run->hosts[i], step))
			continue;
		lose(run, &run->hosts[i]);
		return;
	}
	print_step(run, step);
	for (size_t i = 0; i < run->count; i++) {
		json_decref(run->hosts[i].message);
		run->hosts[i].message = NULL;
	}
	for (size_t i = 0; i < run->count; i++)
		answer(run, &run->hosts[i], step);
}

/* --- the whole run --- */

static void start(struct run *run)
{
	char *words = perf_words(run->o);

	for (size_t i = 0; i < run->count; i++) {
		const struct host *h = &run->hosts[i];

		node_send(h->node, json_pack("{s:s, s:i, s:i, s:s}", "op", "run", "first", h->first,
					     "ranks", run->o->ranks, "options", words));
	}
}

static bool all_have_ended(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++) {
		if (!run->hosts[i].has_ended)
			return false;
	}
	return true;
}

static int end(struct run *run)
{
	int result = run->end_ms || !all_have_ended(run) ? GROUP_ERROR : GROUP_OK;

	for (size_t i = 0; i < run->count; i++) {
		struct host *h = &run->hosts[i];

		result = group_worse(result, h->status);
		node_send(h->node, json_pack("{s:s}", "op", "bye"));
		node_end(h->node);
		json_decref(h->message);
		json_decref(h->slots);
	}
	if (result != GROUP_ERROR)
		perf_print_end(run->o, &run->report);
	return result;
}

int perf_coordinate(struct node *nodes, size_t count, const struct perf_options *o)
{
	struct run *run = memory_get(sizeof(*run));

	*run = (struct run){ .o = o, .count = count, .bytes = o->min_bytes };
	for (size_t i = 0; i < count; i++) {
		struct host *h = &run->hosts[i];

		*h = (struct host){ &nodes[i], (int)i * o->here, NULL, json_array(), false, 0 };
		if (*nodes[i].error) {
			h->has_ended = true;
			fail(run, h, nodes[i].error);
		}
	}
	if (!run->end_ms)
		start(run);
	while (!run->end_ms && !gather(run) && !all_have_ended(run))
		do_step(run);
	if (run->end_ms)
		gather(run);
	return end(run);
}
