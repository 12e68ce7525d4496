/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about running jobs; see live_judge.h. */
#include "live_judge.h"

#include <stdbool.h>
#include <stdio.h>

#include "index.h"
#include "live_slow.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"
#include "tools/shared/memory.h"

#define SILENT_MS     1500 /* a process is stopped if it has not written its file for so long */
#define WAITS_MS      3000 /* shorter waits are ignored */
#define STARVED_LOOKS 2    /* consecutive looks before starvation is reported */

static const struct advice no_answer = { "host-silent", "error",
					 "The state of its ranks is unknown.",
					 "Check that the host is up, and that ssh to it works." };
static const struct advice stopped = {
	"rank-stopped", "error", "All ranks of a collective wait for the slowest.",
	"Examine the process (`cat /proc/PID/stack`, `py-spy dump`), and continue or end it."
};
static const struct advice starved = {
	"host-busy", "warning", "All ranks of a collective wait for the slowest.",
	"Check what else runs there (`top`), and how many processors the job may use (cgroups, "
	"affinity)."
};
static const struct advice waited_for = {
	"rank-waited-for", "warning",
	"Other ranks have waited for it for seconds. It waits for no rank.",
	"Examine the process (`py-spy dump`, `cat /proc/PID/stack`)."
};
static const struct advice left_out = {
	"paths-left-out", "note", "There are too many connections: faults of these are not found.",
	"Run `anynet cluster` while no job runs: it measures all pairs of hosts."
};
static const struct advice faults[FAULTS] = {
	[PATH_DOWN] = { "path-down", "error", "Packets are lost in at least one direction.",
			"Check link, switch port and firewall between the two; run `anynet pair`." },
	[PATH_LOSES] = { "path-loss", "warning", "Retransmissions reduce its rate.",
			 "Check error counters of NIC and switch (`ethtool -S`), and cables." },
	[PATH_SLOW] = { "path-slow", "warning", "A collective is as fast as its slowest path.",
			"Check the speed of its NIC and switch port (`ethtool`), and traffic shapers." },
};
static const char *const fault_names[FAULTS] = { "connections break", "packets are lost",
						 "much slower than the others" };

struct nic {
	unsigned paths, bad[FAULTS]; /* all of them, and those with a fault */
};

struct report {
	json_t *list;      /* of findings */
	json_t *said;      /* index: their ids and hosts */
	json_t *blamed;    /* index: hosts that a finding names alone */
	json_t *starved;   /* index: hosts with a rank that was starved in this look */
	json_t *nic_index; /* of hosts and devices in `nics` */
	struct nic *nics;
};

/* Notes that the last finding concerns a host, or two. */
static void concerns(struct report *report, const char *a, const char *b)
{
	const char *id =
		member_text(json_array_get(report->list, json_array_size(report->list) - 1), "id");

	finding_concerns(report->list, b ? json_pack("[s, s]", a, b) : json_pack("[s]", a));
	index_put(report->said, 0, "%s\n%s\n%s", id, a, b ? b : "");
	if (!b)
		index_put(report->blamed, 0, "%s", a);
}

static void add_ranks(const struct live *live, struct report *report)
{
	for (size_t i = 0; i < live->rank_count; i++) {
		const struct rank *r = &live->ranks[i];

		if (r->starved)
			index_put(report->starved, 0, "%s", r->host);
		if (r->silent_ms >= SILENT_MS && !r->wants_cpu)
			judge_add(report->list, &stopped,
				  "%s: rank %s, process %lld: silent for %.1f s", r->host,
				  *r->rank ? r->rank : "?", r->pid, (double)r->silent_ms / 1e3);
		else if (r->starved >= STARVED_LOOKS)
			judge_add(report->list, &starved,
				  "%s: rank %s, process %lld, gets %.0f %% of the processor time "
				  "that it wants",
				  r->host, *r->rank ? r->rank : "?", r->pid, 100 * r->cpu);
		else
			continue;
		concerns(report, r->host, NULL);
	}
}

/* Whether the host alone is blamed for something. The faults of its paths are then consequences. */
static bool is_blamed(const struct report *report, const char *host)
{
	return index_get(report->blamed, "%s", host) != INDEX_NONE;
}

static void count_bad(const struct live *live, struct report *report)
{
	report->nics = memory_get(live->end_count * sizeof(*report->nics));
	for (size_t i = 0; i < live->end_count; i++) {
		const struct end *e = &live->ends[i];
		struct nic *nic = &report->nics[index_put(report->nic_index,
							  json_object_size(report->nic_index),
							  "%s\n%s", e->host, e->device)];

		nic->paths++;
		nic->bad[e->worst] += e->bad;
	}
}

static bool is_said(const struct report *report, const char *id, const char *a, const char *b)
{
	return index_get(report->said, "%s\n%s\n%s", id, a, b) != INDEX_NONE;
}

/* Whether the fault is reported of the path, or of a host of it. */
static bool is_reported(const struct report *report, enum fault fault, const char *a, const char *b)
{
	const char *id = faults[fault].id;

	return is_said(report, id, a, "") || is_said(report, id, b, "") ||
	       is_said(report, id, a, b) || is_said(report, id, b, a);
}

/* If two thirds of the paths of a device have the fault, reports the device instead of the paths. */
static void add_device(struct report *report, const struct end *e, enum fault fault)
{
	const struct nic *nic =
		&report->nics[index_get(report->nic_index, "%s\n%s", e->host, e->device)];
	unsigned bad = nic->bad[fault], all = nic->paths;

	if (bad < 2 || 3 * bad < 2 * all || is_reported(report, fault, e->host, e->host))
		return;
	judge_add(report->list, &faults[fault], "%s, %s: %s with %u of %u hosts", e->host,
		  e->device, fault_names[fault], bad, all);
	concerns(report, e->host, NULL);
}

static void add_path(const struct live *live, struct report *report, const struct end *e,
		     enum fault fault)
{
	char figures[100] = "";

	if (is_reported(report, fault, e->host, e->other))
		return;
	if (fault == PATH_SLOW && slow_by_another(live, e))
		return;
	if (fault == PATH_LOSES)
		snprintf(figures, sizeof(figures), ": %u of %u retransmitted", e->resent,
			 e->packets + e->resent);
	else if (fault == PATH_SLOW)
		snprintf(figures, sizeof(figures), ": %.3f GB/s", e->rate / 1e9);
	judge_add(report->list, &faults[fault], "%s and %s, by %s to %s: %s%s", e->host, e->other,
		  e->device, *e->address ? e->address : "?", fault_names[fault], figures);
	concerns(report, e->host, e->other);
}

/* Whether a worse fault of the path is already reported: a path that is down is also slow and lossy. */
static bool is_worse(const struct report *report, const struct end *e, enum fault fault)
{
	for (int f = 0; f < (int)fault; f++) {
		if (is_reported(report, (enum fault)f, e->host, e->other))
			return true;
	}
	return false;
}

/* A path can be slow because a rank of one of its hosts was starved in this look. */
static bool is_inconclusive(const struct report *report, const struct end *e, enum fault fault)
{
	return fault == PATH_SLOW && (index_get(report->starved, "%s", e->host) != INDEX_NONE ||
				      index_get(report->starved, "%s", e->other) != INDEX_NONE);
}

static void add_paths_with(const struct live *live, struct report *report, enum fault fault,
			   bool devices)
{
	for (size_t i = 0; i < live->end_count; i++) {
		const struct end *e = &live->ends[i];

		if (!e->bad || e->worst != fault || is_inconclusive(report, e, fault) ||
		    is_blamed(report, e->host) || is_blamed(report, e->other) ||
		    is_worse(report, e, fault))
			continue;
		if (devices)
			add_device(report, e, fault);
		else
			add_path(live, report, e, fault);
	}
}

static void add_paths(const struct live *live, struct report *report)
{
	count_bad(live, report);
	for (int f = 0; f < FAULTS; f++) {
		add_paths_with(live, report, (enum fault)f, true);
		add_paths_with(live, report, (enum fault)f, false);
	}
}

/* Returns an index of the processes that wait for another. */
static json_t *waiting_processes(const json_t *hosts)
{
	json_t *waiting = json_object();
	const json_t *host, *wait;
	size_t i, k;

	json_array_foreach (hosts, i, host) {
		json_array_foreach (json_object_get(json_object_get(host, "facts"), "waits"), k,
				    wait)
			index_put(waiting, 0, "%lld\n%s", member_int(wait, "pid", 1, INT32_MAX, 0),
				  member_text(host, "name"));
	}
	return waiting;
}

/* Without other findings, reports a process for which others wait and which waits for none, in two looks in a row: the
 * hosts are not asked at the same instant, and just after a wait the table of a host may still have it. */
static void add_waits(struct live *live, struct report *report, const json_t *hosts)
{
	json_t *waiting = waiting_processes(hosts), *before = live->awaited;
	const json_t *host, *wait;
	size_t i, k;

	live->awaited = json_object();
	json_array_foreach (hosts, i, host) {
		json_array_foreach (json_object_get(json_object_get(host, "facts"), "waits"), k,
				    wait) {
			long long pid = member_int(wait, "for_pid", 1, INT32_MAX, 0);
			const char *name =
				live_name(live, hosts, member_text(wait, "for_host"), pid);

			if (member_int(wait, "ms", 0, INT64_MAX, 0) < WAITS_MS ||
			    index_get(waiting, "%lld\n%s", pid, name) != INDEX_NONE)
				continue;
			index_put(live->awaited, 0, "%lld\n%s", pid, name);
			if (json_array_size(report->list) ||
			    index_get(before, "%lld\n%s", pid, name) == INDEX_NONE)
				continue;
			judge_add(report->list, &waited_for, "%s: process %lld", name, pid);
			concerns(report, name, NULL);
		}
	}
	json_decref(waiting);
	json_decref(before);
}

static void add_left_out(struct report *report, const json_t *hosts)
{
	json_t *names = json_array();
	long long all = 0;
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host) {
		long long count =
			member_int(json_object_get(host, "facts"), "left_out", 1, INT32_MAX, 0);

		all += count;
		if (count)
			json_array_append(names, json_object_get(host, "name"));
	}
	if (all) {
		judge_add(report->list, &left_out, "%lld connections of %zu hosts are not watched",
			  all, json_array_size(names));
		finding_concerns(report->list, json_incref(names));
	}
	json_decref(names);
}

static void add_silent_hosts(struct report *report, const json_t *hosts)
{
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host) {
		if (json_is_object(json_object_get(host, "facts")))
			continue;
		judge_add(report->list, &no_answer, "%s: no answer", member_text(host, "name"));
		concerns(report, member_text(host, "name"), NULL);
	}
}

json_t *live_judge(struct live *live, const json_t *hosts)
{
	struct report report = { .list = json_array(),
				 .said = json_object(),
				 .blamed = json_object(),
				 .starved = json_object(),
				 .nic_index = json_object() };
	uint64_t mark;

	live_look(live, hosts);
	mark = memory_mark();
	add_silent_hosts(&report, hosts);
	add_ranks(live, &report);
	add_paths(live, &report);
	add_waits(live, &report, hosts);
	add_left_out(&report, hosts);
	memory_release(mark);
	json_decref(report.said);
	json_decref(report.blamed);
	json_decref(report.starved);
	json_decref(report.nic_index);
	return findings_sorted(report.list);
}
