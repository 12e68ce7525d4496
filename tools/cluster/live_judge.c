/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame; see live_judge.h. */
#include "live_judge.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/judge/finding.h"
#include "tools/shared/member.h"

#define ENDS_MAX   2048 /* paths, as one end sees each */
#define NAME       64
#define SILENT_MS  1500
#define WAITS_MS   3000
#define LOST       0.02 /* of all packets */
#define LOST_LEAST 8    /* and so many in the last looks */
#define WINDOW     6    /* looks that count for rates and losses */
#define SLOW       0.25 /* of the median rate of all paths */
#define QUEUED \
	2.0 /* times the median round trip: what waits is in the path, and not in the program */
#define SLOW_PACKETS  30   /* in the window: fewer tell no rate */
#define SLOW_LOOKS    3    /* in a row */
#define STARVED       0.25 /* of the processor time that it wants … */
#define STARVED_LOOKS 5
#define STARVED_BY    0.4 /* … and of the median of all */

enum fault {
	PATH_DOWN,
	PATH_LOSES,
	PATH_SLOW,
	FAULTS
};

/* A path between two hosts, from one end. */
struct end {
	char host[NAME], other[NAME], device[NAME], address[NAME];
	unsigned looks[FAULTS]; /* in a row */
	bool now[FAULTS], seen, gone;
	unsigned down, up, missing; /* connections, and looks in a row without any */
	/* Of the last looks, and together: the sum, the best. */
	unsigned packets_of[WINDOW], resent_of[WINDOW], packets, resent;
	double rates[WINDOW], rate, rtts[WINDOW], rtt;
};

struct rank {
	char host[NAME], rank[16];
	long long pid, silent_ms;
	double cpu;
	unsigned starved; /* looks in a row */
	bool seen;
};

struct live {
	struct end ends[ENDS_MAX];
	struct rank ranks[ENDS_MAX];
	size_t end_count, rank_count;
	unsigned look;
};

struct live *live_new(void)
{
	return calloc(1, sizeof(struct live));
}

void live_free(struct live *live)
{
	free(live);
}

static void copy(char *to, const char *from)
{
	snprintf(to, NAME, "%s", from);
}

/* --- one look --- */

/* The name of the host on which that process is. */
static const char *name_of(const json_t *hosts, const char *host, long long pid)
{
	const json_t *each, *process;
	size_t i, k;

	json_array_foreach(hosts, i, each)
	{
		json_array_foreach(json_object_get(json_object_get(each, "facts"), "processes"), k,
				   process)
		{
			if (member_int(process, "pid", 1, INT32_MAX, 0) == pid &&
			    !strcmp(member_text(process, "host"), host))
				return member_text(each, "name");
		}
	}
	return host;
}

static struct end *end_of(struct live *live, const char *host, const char *other,
			  const json_t *path)
{
	const char *device = member_text(path, "device"), *address = member_text(path, "address");
	struct end *e;

	for (size_t i = 0; i < live->end_count; i++) {
		e = &live->ends[i];
		if (!strcmp(e->host, host) && !strcmp(e->other, other) &&
		    !strcmp(e->device, device) && !strcmp(e->address, address))
			return e;
	}
	if (live->end_count == ENDS_MAX)
		return NULL;
	e = &live->ends[live->end_count++];
	*e = (struct end){ .seen = false };
	copy(e->host, host);
	copy(e->other, other);
	copy(e->device, device);
	copy(e->address, address);
	return e;
}

static void take_path(struct live *live, const json_t *hosts, const char *host, const json_t *path)
{
	const char *other = name_of(hosts, member_text(path, "for_host"),
				    member_int(path, "for_pid", 1, INT32_MAX, 0));
	struct end *e = end_of(live, host, other, path);
	unsigned slot = live->look % WINDOW;
	double rate = (double)member_int(path, "rate", 0, INT64_MAX, 0);
	double rtt = (double)member_int(path, "rtt_us", 0, INT64_MAX, 0);

	if (!e)
		return;
	if (!e->seen)
		e->down = e->up = 0;
	e->seen = true;
	e->down += (unsigned)member_int(path, "down", 0, INT32_MAX, 0);
	e->up += (unsigned)member_int(path, "up", 0, INT32_MAX, 0);
	e->packets_of[slot] += (unsigned)member_int(path, "packets", 0, INT32_MAX, 0);
	e->resent_of[slot] += (unsigned)member_int(path, "resent", 0, INT32_MAX, 0);
	if (rate > e->rates[slot])
		e->rates[slot] = rate;
	if (rtt > e->rtts[slot])
		e->rtts[slot] = rtt;
}

static void take_process(struct live *live, const char *host, const json_t *process)
{
	long long pid = member_int(process, "pid", 1, INT32_MAX, 0);
	struct rank *r = NULL;

	for (size_t i = 0; i < live->rank_count && !r; i++) {
		if (live->ranks[i].pid == pid && !strcmp(live->ranks[i].host, host))
			r = &live->ranks[i];
	}
	if (!r && live->rank_count == ENDS_MAX)
		return;
	if (!r) {
		r = &live->ranks[live->rank_count++];
		*r = (struct rank){ .pid = pid };
		copy(r->host, host);
	}
	snprintf(r->rank, sizeof(r->rank), "%s", member_text(process, "rank"));
	r->silent_ms = member_int(process, "silent_ms", 0, INT64_MAX, 0);
	r->cpu = json_is_real(json_object_get(process, "cpu")) ? member_real(process, "cpu") : -1;
	r->seen = true;
}

static void take_host(struct live *live, const json_t *hosts, const json_t *host)
{
	const json_t *facts = json_object_get(host, "facts"), *item;
	size_t i;

	json_array_foreach(json_object_get(facts, "processes"), i, item)
		take_process(live, member_text(host, "name"), item);
	json_array_foreach(json_object_get(facts, "paths"), i, item)
		take_path(live, hosts, member_text(host, "name"), item);
}

/* Do these two hosts talk to each other, by whatever path? */
static bool has_others(const struct live *live, const struct end *e)
{
	for (size_t i = 0; i < live->end_count; i++) {
		const struct end *o = &live->ends[i];

		if (o->seen && !strcmp(o->host, e->host) && !strcmp(o->other, e->other))
			return true;
	}
	return false;
}

/* A path that is not used any more, though the two hosts still talk, is kept: its connections have gone elsewhere.
 * All else that no host tells of is forgotten. */
static void forget(struct live *live)
{
	size_t kept = 0;

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		e->missing = e->seen && e->up ? 0 : e->missing + 1;
		e->gone = !e->seen && !has_others(live, e);
	}
	for (size_t i = 0; i < live->end_count; i++) {
		if (!live->ends[i].gone)
			live->ends[kept++] = live->ends[i];
	}
	live->end_count = kept;
	kept = 0;
	for (size_t i = 0; i < live->rank_count; i++) {
		if (live->ranks[i].seen)
			live->ranks[kept++] = live->ranks[i];
	}
	live->rank_count = kept;
}

/* --- what is odd --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	if (!count)
		return 0;
	qsort(values, count, sizeof(*values), by_value);
	return values[count / 2];
}

static void add_up(struct end *e)
{
	int count = 0;

	e->packets = e->resent = 0;
	e->rate = e->rtt = 0;
	for (int k = 0; k < WINDOW; k++) {
		e->packets += e->packets_of[k];
		e->resent += e->resent_of[k];
		e->rate = e->rates[k] > e->rate ? e->rates[k] : e->rate;
		e->rtt += e->rtts[k];
		count += e->rtts[k] > 0;
	}
	e->rtt = count ? e->rtt / count : 0;
}

/* Of the paths that carry enough to tell; *rtt likewise. 0: there are too few. */
static double median_rate(struct live *live, double *rtt)
{
	static double rates[ENDS_MAX], rtts[ENDS_MAX];
	size_t count = 0;

	for (size_t i = 0; i < live->end_count; i++) {
		add_up(&live->ends[i]);
		if (live->ends[i].rate <= 0 || live->ends[i].packets < SLOW_PACKETS)
			continue;
		rtts[count] = live->ends[i].rtt;
		rates[count++] = live->ends[i].rate;
	}
	*rtt = median(rtts, count);
	return count > 2 ? median(rates, count) : 0;
}

static void note_ends(struct live *live)
{
	double rtt, rate = median_rate(live, &rtt);

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		e->now[PATH_DOWN] = e->down > 0 || e->missing > 0;
		e->now[PATH_LOSES] = e->resent >= LOST_LEAST &&
				     e->resent > LOST * (double)(e->packets + e->resent);
		e->now[PATH_SLOW] = e->packets >= SLOW_PACKETS && e->rate > 0 &&
				    e->rate < SLOW * rate && e->rtt > QUEUED * rtt;
		for (int f = 0; f < FAULTS; f++)
			e->looks[f] = e->now[f] ? e->looks[f] + 1 : 0;
	}
}

static void note_ranks(struct live *live)
{
	static double shares[ENDS_MAX];
	size_t count = 0;
	double usual;

	for (size_t i = 0; i < live->rank_count; i++) {
		if (live->ranks[i].cpu >= 0 && !live->ranks[i].silent_ms)
			shares[count++] = live->ranks[i].cpu;
	}
	usual = median(shares, count);
	for (size_t i = 0; i < live->rank_count; i++) {
		struct rank *r = &live->ranks[i];
		bool starved = r->cpu >= 0 && r->cpu < STARVED && r->cpu < STARVED_BY * usual;

		r->starved = starved ? r->starved + 1 : 0;
	}
}

/* --- findings --- */

static const struct advice no_answer = {
	"host-silent", "error", "Nothing is known of the ranks on it.",
	"Log in there; is the host up, and its network for logins?"
};
static const struct advice stopped = {
	"rank-stopped", "error", "All ranks of a collective wait for the slowest.",
	"Look at the process (`cat /proc/PID/stack`, `py-spy dump`), and continue or end it."
};
static const struct advice starved = {
	"host-busy", "warning", "All ranks of a collective wait for the slowest.",
	"See what else runs there (`top`), and how many processors the job may use (cgroups, affinity)."
};
static const struct advice waited_for = {
	"rank-waited-for", "warning", "Others have waited for it for seconds; it waits for nobody.",
	"Look at what it does (`py-spy dump`, `cat /proc/PID/stack`)."
};
static const struct advice faults[FAULTS] = {
	[PATH_DOWN] = { "path-down", "error",
			"Packets do not come through, in one direction at least.",
			"Look at link, switch port and firewall of the two; `anynet pair` between them." },
	[PATH_LOSES] = { "path-loss", "warning", "Retransmissions make it slow.",
			 "Look at error counters of NIC and switch (`ethtool -S`), and at cables." },
	[PATH_SLOW] = { "path-slow", "warning", "A collective is as fast as its slowest link.",
			"Look at the speed of its NIC and switch port (`ethtool`), and at shapers." },
};
static const char *const fault_names[FAULTS] = { "no connection", "packets are lost",
						 "much slower than the others" };

static void add_ranks(const struct live *live, json_t *list)
{
	for (size_t i = 0; i < live->rank_count; i++) {
		const struct rank *r = &live->ranks[i];

		if (r->silent_ms >= SILENT_MS)
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

/* Its paths are its own trouble's consequence. */
static bool is_blamed(const json_t *list, const char *host)
{
	const json_t *finding, *name;
	size_t i, k;

	json_array_foreach(list, i, finding)
	{
		json_array_foreach(json_object_get(finding, "hosts"), k, name)
		{
			if (json_array_size(json_object_get(finding, "hosts")) == 1 &&
			    !strcmp(json_string_value(name), host))
				return true;
		}
	}
	return false;
}

/* Losses are summed up over the looks as it is; the best rate of a moment says little. */
static bool is_odd(const struct end *e, enum fault fault)
{
	static const unsigned wanted[FAULTS] = {
		[PATH_DOWN] = LIVE_LOOKS,
		[PATH_LOSES] = 2,
		[PATH_SLOW] = SLOW_LOOKS,
	};

	return e->looks[fault] >= wanted[fault];
}

/* How many of the paths of a host's device have this fault, of how many; seen from here or from there. */
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

static bool has_told(const json_t *list, const char *id, const char *a, const char *b)
{
	const json_t *finding;
	size_t i;

	json_array_foreach(list, i, finding)
	{
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

/* A device with which all is bad is named once instead of its paths. */
static void add_device(const struct live *live, json_t *list, const struct end *e, enum fault fault)
{
	unsigned all, odd = count_odd(live, e, fault, &all);

	if (odd < 2 || 3 * odd < 2 * all || has_told(list, faults[fault].id, e->host, e->host))
		return;
	judge_add(list, &faults[fault], "%s, %s: %s with %u of %u hosts", e->host, e->device,
		  fault_names[fault], odd, all);
	finding_concerns(list, json_pack("[s]", e->host));
}

static void add_path(json_t *list, const struct end *e, enum fault fault)
{
	char figures[100] = "";

	if (has_told(list, faults[fault].id, e->host, e->other))
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

/* A path that is down is slow and loses, too: the worst is told. */
static bool is_worse(const json_t *list, const struct end *e, enum fault fault)
{
	for (int f = 0; f < (int)fault; f++) {
		if (has_told(list, faults[f].id, e->host, e->other))
			return true;
	}
	return false;
}

/* Its rank may be starved, though not for long enough to be sure: then a slow path proves nothing. */
static bool may_be_starved(const struct live *live, const char *host)
{
	for (size_t i = 0; i < live->rank_count; i++) {
		if (live->ranks[i].starved && !strcmp(live->ranks[i].host, host))
			return true;
	}
	return false;
}

static bool is_in_doubt(const struct live *live, const struct end *e, enum fault fault)
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
				    is_in_doubt(live, e, (enum fault)f) ||
				    is_blamed(list, e->host) || is_blamed(list, e->other) ||
				    is_worse(list, e, (enum fault)f))
					continue;
				if (devices)
					add_device(live, list, e, (enum fault)f);
				else
					add_path(list, e, (enum fault)f);
			}
		}
	}
}

/* Somebody for whom others wait, and who waits for nobody: if nothing else explains it. */
static void add_waits(json_t *list, const json_t *hosts)
{
	const json_t *host, *wait, *other, *its;
	size_t i, k, j, l;

	json_array_foreach(hosts, i, host)
	{
		json_array_foreach(json_object_get(json_object_get(host, "facts"), "waits"), k,
				   wait)
		{
			long long pid = member_int(wait, "for_pid", 1, INT32_MAX, 0);
			const char *name = name_of(hosts, member_text(wait, "for_host"), pid);
			bool waits = member_int(wait, "ms", 0, INT64_MAX, 0) < WAITS_MS;

			json_array_foreach(hosts, j, other)
			{
				json_array_foreach(json_object_get(json_object_get(other, "facts"),
								   "waits"),
						   l, its)
				{
					waits |= member_int(its, "pid", 1, INT32_MAX, 0) == pid &&
						 !strcmp(member_text(other, "name"), name);
				}
			}
			if (waits || json_array_size(list))
				continue;
			judge_add(list, &waited_for, "%s: process %lld", name, pid);
			finding_concerns(list, json_pack("[s]", name));
		}
	}
}

json_t *live_judge(struct live *live, const json_t *hosts)
{
	json_t *list = json_array();
	const json_t *host;
	unsigned slot;
	size_t i;

	slot = ++live->look % WINDOW;
	for (size_t k = 0; k < live->end_count; k++) {
		struct end *e = &live->ends[k];

		e->seen = false;
		e->packets_of[slot] = e->resent_of[slot] = 0;
		e->rates[slot] = e->rtts[slot] = 0;
	}
	for (size_t k = 0; k < live->rank_count; k++)
		live->ranks[k].seen = false;
	json_array_foreach(hosts, i, host)
	{
		take_host(live, hosts, host);
		if (json_is_object(json_object_get(host, "facts")))
			continue;
		judge_add(list, &no_answer, "%s: no answer", member_text(host, "name"));
		finding_concerns(list, json_pack("[s]", member_text(host, "name")));
	}
	forget(live);
	note_ends(live);
	note_ranks(live);
	add_ranks(live, list);
	add_paths(live, list);
	add_waits(list, hosts);
	return findings_sorted(list);
}
