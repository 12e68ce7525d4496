/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about running jobs; see live_judge.h. */
#include "live_judge.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "index.h"
#include "live_slow.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"

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

static void add_ranks(const struct live *live, json_t *list)
{
	for (size_t i = 0; i < live->rank_count; i++) {
		const struct rank *r = &live->ranks[i];

		if (r->silent_ms >= SILENT_MS && !r->wants_cpu)
			judge_add(list, &stopped, "%s: rank %s, process %lld: silent for %.1f s",
				  r->host, *r->rank ? r->rank : "?", r->pid,
				  (double)r->silent_ms / 1e3);
		else if (r->starved >= STARVED_LOOKS)
			judge_add(list, &starved,
				  "%s: rank %s, process %lld, gets %.0f %% of the processor time "
				  "that it wants",
				  r->host, *r->rank ? r->rank : "?", r->pid, 100 * r->cpu);
		else
			continue;
		finding_concerns(list, json_pack("[s]", r->host));
	}
}

/* Whether the host alone is blamed for something. The faults of its paths are then consequences. */
static bool is_blamed(const json_t *list, const char *host)
{
	const json_t *finding, *name;
	size_t i, k;

	json_array_foreach (list, i, finding) {
		json_array_foreach (json_object_get(finding, "hosts"), k, name) {
			if (json_array_size(json_object_get(finding, "hosts")) == 1 &&
			    !strcmp(json_string_value(name), host))
				return true;
		}
	}
	return false;
}

static bool is_odd(const struct end *e, enum fault fault)
{
	return e->bad && e->worst == fault;
}

/* Counts the paths of a host's device, and returns how many of them have the fault. */
static unsigned count_odd(const struct live *live, const struct end *like, enum fault fault,
			  unsigned *all)
{
	unsigned odd = 0;

	*all = 0;
	for (size_t i = 0; i < live->end_count; i++) {
		const struct end *e = &live->ends[i];

		if (strcmp(e->host, like->host) != 0 || strcmp(e->device, like->device) != 0)
			continue;
		++*all;
		odd += is_odd(e, fault);
	}
	return odd;
}

static bool is_reported(const json_t *list, const char *id, const char *a, const char *b)
{
	const json_t *finding;
	size_t i;

	json_array_foreach (list, i, finding) {
		const json_t *hosts = json_object_get(finding, "hosts");
		const char *one = json_string_value(json_array_get(hosts, 0));
		const char *two = json_string_value(json_array_get(hosts, 1));

		if (strcmp(member_text(finding, "id"), id) != 0 || !one)
			continue;
		if (!two && (!strcmp(one, a) || !strcmp(one, b)))
			return true;
		if (two &&
		    ((!strcmp(one, a) && !strcmp(two, b)) || (!strcmp(one, b) && !strcmp(two, a))))
			return true;
	}
	return false;
}

/* If two thirds of the paths of a device have the fault, reports the device instead of the paths. */
static void add_device(const struct live *live, json_t *list, const struct end *e, enum fault fault)
{
	unsigned all, odd = count_odd(live, e, fault, &all);

	if (odd < 2 || 3 * odd < 2 * all || is_reported(list, faults[fault].id, e->host, e->host))
		return;
	judge_add(list, &faults[fault], "%s, %s: %s with %u of %u hosts", e->host, e->device,
		  fault_names[fault], odd, all);
	finding_concerns(list, json_pack("[s]", e->host));
}

static void add_path(json_t *list, const struct end *e, enum fault fault)
{
	char figures[100] = "";

	if (is_reported(list, faults[fault].id, e->host, e->other))
		return;
	if (fault == PATH_LOSES)
		snprintf(figures, sizeof(figures), ": %u of %u retransmitted", e->resent,
			 e->packets + e->resent);
	else if (fault == PATH_SLOW)
		snprintf(figures, sizeof(figures), ": %.3f GB/s", e->rate / 1e9);
	judge_add(list, &faults[fault], "%s and %s, by %s to %s: %s%s", e->host, e->other,
		  e->device, *e->address ? e->address : "?", fault_names[fault], figures);
	finding_concerns(list, json_pack("[s, s]", e->host, e->other));
}

/* Whether a worse fault of the path is already reported: a path that is down is also slow and lossy. */
static bool is_worse(const json_t *list, const struct end *e, enum fault fault)
{
	for (int f = 0; f < (int)fault; f++) {
		if (is_reported(list, faults[f].id, e->host, e->other))
			return true;
	}
	return false;
}

/* Whether a rank of the host was starved in the last look. Starvation can make a path slow. */
static bool may_be_starved(const struct live *live, const char *host)
{
	for (size_t i = 0; i < live->rank_count; i++) {
		if (live->ranks[i].starved && !strcmp(live->ranks[i].host, host))
			return true;
	}
	return false;
}

static bool is_inconclusive(const struct live *live, const struct end *e, enum fault fault)
{
	return fault == PATH_SLOW &&
	       (may_be_starved(live, e->host) || may_be_starved(live, e->other));
}

static void add_paths(const struct live *live, json_t *list)
{
	for (int f = 0; f < FAULTS; f++) {
		for (int devices = 1; devices >= 0; devices--) {
			for (size_t i = 0; i < live->end_count; i++) {
				const struct end *e = &live->ends[i];

				if (!is_odd(e, (enum fault)f) ||
				    is_inconclusive(live, e, (enum fault)f) ||
				    is_blamed(list, e->host) || is_blamed(list, e->other) ||
				    is_worse(list, e, (enum fault)f))
					continue;
				if (devices)
					add_device(live, list, e, (enum fault)f);
				else if (f != PATH_SLOW || !slow_by_another(live, e))
					add_path(list, e, (enum fault)f);
			}
		}
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

/* Without other findings, reports a process for which others wait and which waits for none. */
static void add_waits(const struct live *live, json_t *list, const json_t *hosts)
{
	json_t *waiting = waiting_processes(hosts);
	const json_t *host, *wait;
	size_t i, k;

	json_array_foreach (hosts, i, host) {
		json_array_foreach (json_object_get(json_object_get(host, "facts"), "waits"), k,
				    wait) {
			long long pid = member_int(wait, "for_pid", 1, INT32_MAX, 0);
			const char *name =
				live_name(live, hosts, member_text(wait, "for_host"), pid);

			if (json_array_size(list) ||
			    member_int(wait, "ms", 0, INT64_MAX, 0) < WAITS_MS ||
			    index_get(waiting, "%lld\n%s", pid, name) != INDEX_NONE)
				continue;
			judge_add(list, &waited_for, "%s: process %lld", name, pid);
			finding_concerns(list, json_pack("[s]", name));
		}
	}
	json_decref(waiting);
}

json_t *live_judge(struct live *live, const json_t *hosts)
{
	json_t *list = json_array();
	const json_t *host;
	size_t i;

	live_look(live, hosts);
	json_array_foreach (hosts, i, host) {
		if (json_is_object(json_object_get(host, "facts")))
			continue;
		judge_add(list, &no_answer, "%s: no answer", member_text(host, "name"));
		finding_concerns(list, json_pack("[s]", member_text(host, "name")));
	}
	add_ranks(live, list);
	add_paths(live, list);
	add_waits(live, list, hosts);
	return findings_sorted(list);
}
