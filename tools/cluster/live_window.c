/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence against paths and ranks; see live_window.h. */
#include "live_window.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "index.h"
#include "live_slow.h"
#include "tools/shared/doubles.h"
#include "tools/shared/member.h"
#include "tools/shared/memory.h"

/*
 * Evidence against a path is a cumulative sum over the looks (CUSUM): a look worse than a threshold adds, a better
 * one subtracts, and a look without data reduces it slightly. Single looks are noisy, and there are few of a bad
 * path, because the plugin moves data away from it. The evidence for all faults is added; a path is bad from 1 on.
 * The fault with the most evidence is reported.
 */
#define FORGET 0.95      /* factor for a look without data */
#define MOST   (2.0 / 3) /* limit for one look */
#define CAP    2.0       /* limit for the evidence of one fault */
#define GOOD   0.6       /* below this, a bad path is good again */
#define GREW   2         /* the total must grow in this many looks: one may be momentary */

#define STANDS  0.85      /* factor if connections are up but idle */
#define BROKE   (2.0 / 3) /* the last connection broke */
#define LEFT    0.4       /* a connection broke, others are up */
#define MISSING (1.0 / 3) /* there is no connection, one is down, or one broke and left */

/* Loss counts by the log likelihood ratio of LOST_TIMES the usual loss to the usual loss, which is at least USUAL. */
#define LOST_TIMES 5
#define USUAL      0.01
#define LOST       (1.0 / 12) /* weight */

/* A rank is starved if its share of a processor is below STARVED, and below STARVED_BY times the median of all. */
#define STARVED       0.5
#define STARVED_BY    0.55
#define STARVED_MS    100 /* minimum average wait per look */
#define STARVED_KNOWN 4   /* looks that must have data */

struct live *live_new(void)
{
	return memory_get(sizeof(struct live));
}

static void copy(char *to, const char *from)
{
	snprintf(to, NAME, "%s", from);
}

/* Return the number of the entry; a new one gets `next`. */
static size_t number_of_end(struct live *live, const struct end *e, size_t next)
{
	return index_put(live->end_index, next, "%s\n%s\n%s\n%s", e->host, e->other, e->device,
			 e->address);
}

static size_t number_of_rank(struct live *live, const struct rank *r, size_t next)
{
	return index_put(live->rank_index, next, "%lld\n%s", r->pid, r->host);
}

/* Notes which host reports which process. */
static void note_names(struct live *live, const json_t *hosts)
{
	const json_t *host, *process;
	size_t i, k;

	json_decref(live->names);
	live->names = json_object();
	json_array_foreach (hosts, i, host) {
		json_array_foreach (json_object_get(json_object_get(host, "facts"), "processes"), k,
				    process)
			index_put(live->names, i, "%lld\n%s",
				  member_int(process, "pid", 1, INT32_MAX, 0),
				  member_text(process, "host"));
	}
}

const char *live_name(const struct live *live, const json_t *hosts, const char *host, long long pid)
{
	size_t i = index_get(live->names, "%lld\n%s", pid, host);

	return i == INDEX_NONE ? host : member_text(json_array_get(hosts, i), "name");
}

/* The numbers in the tables change when ranks and paths are forgotten. */
static void index_tables(struct live *live)
{
	json_decref(live->end_index);
	json_decref(live->rank_index);
	live->end_index = json_object();
	live->rank_index = json_object();
	for (size_t i = 0; i < live->end_count; i++)
		number_of_end(live, &live->ends[i], i);
	for (size_t i = 0; i < live->rank_count; i++)
		number_of_rank(live, &live->ranks[i], i);
}

static struct end *end_of(struct live *live, const char *host, const char *other,
			  const json_t *path)
{
	struct end e = { .seen = false };
	size_t i;

	copy(e.host, host);
	copy(e.other, other);
	copy(e.device, member_text(path, "device"));
	copy(e.address, member_text(path, "address"));
	i = number_of_end(live, &e, live->end_count);
	if (i == live->end_count) {
		live->ends = memory_resize(live->ends, ++live->end_count * sizeof(e));
		live->ends[i] = e;
	}
	return &live->ends[i];
}

static struct rank *rank_of(struct live *live, const char *host, long long pid)
{
	struct rank r = { .pid = pid };
	size_t i;

	copy(r.host, host);
	i = number_of_rank(live, &r, live->rank_count);
	if (i == live->rank_count) {
		live->ranks = memory_resize(live->ranks, ++live->rank_count * sizeof(r));
		live->ranks[i] = r;
	}
	return &live->ranks[i];
}

static void take_path(struct live *live, const json_t *hosts, const char *host, const json_t *path)
{
	const char *other = live_name(live, hosts, member_text(path, "for_host"),
				      member_int(path, "for_pid", 1, INT32_MAX, 0));
	struct end *e = end_of(live, host, other, path);
	unsigned slot = live->look % WINDOW;
	double rtt_us = (double)member_int(path, "rtt_us", 0, INT64_MAX, 0);

	if (!e->seen)
		e->down = e->up = e->broke = 0;
	e->seen = true;
	e->down += (unsigned)member_int(path, "down", 0, INT32_MAX, 0);
	e->up += (unsigned)member_int(path, "up", 0, INT32_MAX, 0);
	e->broke += (unsigned)member_int(path, "broke", 0, INT32_MAX, 0);
	e->packets_of[slot] += (unsigned)member_int(path, "packets", 0, INT32_MAX, 0);
	e->resent_of[slot] += (unsigned)member_int(path, "resent", 0, INT32_MAX, 0);
	e->now.acked += (double)member_int(path, "acked", 0, INT64_MAX, 0);
	e->now.busy_us += (double)member_int(path, "busy_us", 0, INT64_MAX, 0);
	if (rtt_us > e->now.rtt_us)
		e->now.rtt_us = rtt_us;
}

static void take_process(struct live *live, const char *host, const json_t *process)
{
	long long pid = member_int(process, "pid", 1, INT32_MAX, 0);
	struct rank *r = rank_of(live, host, pid);

	snprintf(r->rank, sizeof(r->rank), "%s", member_text(process, "rank"));
	r->silent_ms = member_int(process, "silent_ms", 0, INT64_MAX, 0);
	r->ran_of[live->look % WINDOW] = member_int(process, "ran_ms", 0, INT32_MAX, -1);
	r->waited_of[live->look % WINDOW] = member_int(process, "waited_ms", 0, INT32_MAX, -1);
	r->looks += r->looks < WINDOW;
	r->seen = true;
}

static void take_host(struct live *live, const json_t *hosts, const json_t *host)
{
	const json_t *facts = json_object_get(host, "facts"), *item;
	size_t i;

	json_array_foreach (json_object_get(facts, "processes"), i, item)
		take_process(live, member_text(host, "name"), item);
	json_array_foreach (json_object_get(facts, "paths"), i, item)
		take_path(live, hosts, member_text(host, "name"), item);
}

static void note_pairs(struct live *live)
{
	json_t *index = json_object();

	live->pairs = memory_resize(live->pairs, live->end_count * sizeof(*live->pairs));
	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];
		size_t next = json_object_size(index);

		e->pair = index_put(index, next, "%s\n%s", e->host, e->other);
		if (e->pair == next)
			live->pairs[next] = (struct pair){ .seen = false };
		live->pairs[e->pair].seen |= e->seen;
		live->pairs[e->pair].carries |= slow_has_data(e);
	}
	json_decref(index);
}

/*
 * Removes ranks and paths that no host reports any more. A path is kept while other paths of its two hosts are
 * reported, because its connections have moved there, but no longer than it was known: it may have been a detour.
 */
static void forget(struct live *live)
{
	size_t kept = 0;

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		e->missing = e->seen && e->up ? 0 : e->missing + 1;
		e->known += e->seen;
		if (e->seen || (live->pairs[e->pair].seen && e->missing <= e->known))
			live->ends[kept++] = *e;
	}
	live->end_count = kept;
	kept = 0;
	for (size_t i = 0; i < live->rank_count; i++) {
		if (live->ranks[i].seen)
			live->ranks[kept++] = live->ranks[i];
	}
	live->rank_count = kept;
}

/* --- evidence --- */

/* Sums up the packets of the window. */
static void add_up(struct end *e)
{
	e->packets = e->resent = 0;
	for (int k = 0; k < WINDOW; k++) {
		e->packets += e->packets_of[k];
		e->resent += e->resent_of[k];
	}
}

/* The median share of lost packets of all paths in the window. */
static double usual_loss(struct live *live)
{
	uint64_t mark = memory_mark();
	double *lost = memory_get(live->end_count * sizeof(*lost)), median;
	size_t count = 0;

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		add_up(e);
		if (e->packets)
			lost[count++] = e->resent / (double)(e->packets + e->resent);
	}
	median = doubles_median(lost, count);
	memory_release(mark);
	return fmax(median, USUAL);
}

static void weigh(double *evidence, double more)
{
	*evidence += more < MOST ? more : MOST;
	*evidence = *evidence < 0 ? 0 : *evidence > CAP ? CAP : *evidence;
}

/* The smallest number of connections in the looks of the window before this one: a further one may only have been there
 * for a moment, while its own path was avoided. */
static unsigned least_up(const struct end *e, unsigned slot)
{
	unsigned least = UINT_MAX;

	for (unsigned k = 1; k <= WINDOW && k < e->known; k++)
		if (e->up_of[(slot + WINDOW - k) % WINDOW] < least)
			least = e->up_of[(slot + WINDOW - k) % WINDOW];
	return least == UINT_MAX ? e->up : least;
}

/* Without a break before, fewer connections mean that the program has closed some. */
static void note_break(struct end *e, unsigned slot)
{
	if (e->broke) {
		e->had = least_up(e, slot);
		e->away = WINDOW;
	} else if (e->up >= e->had) {
		e->away = 0;
	} else if (e->away) {
		e->away--;
	}
	e->up_of[slot] = e->up;
}

static void weigh_down(struct end *e, unsigned slot)
{
	double *evidence = &e->evidence[PATH_DOWN];

	note_break(e, slot);
	if (e->broke || e->down || e->missing || e->away)
		weigh(evidence, e->broke && !e->up                   ? BROKE
				: e->down || e->missing || !e->broke ? MISSING
								     : LEFT);
	else if (slow_has_data(e))
		weigh(evidence, -MISSING);
	else
		*evidence *= STANDS;
}

static void weigh_slow(struct end *e, const struct usual_speed *usual)
{
	double *evidence = &e->evidence[PATH_SLOW], more;

	if (slow_weight(e, usual, &more))
		weigh(evidence, more);
	else
		*evidence *= FORGET;
}

static void weigh_lossy(struct end *e, double usual, unsigned slot)
{
	unsigned lost = e->resent_of[slot], all = e->packets_of[slot] + lost;

	if (!all)
		e->evidence[PATH_LOSES] *= FORGET;
	else
		weigh(&e->evidence[PATH_LOSES],
		      LOST * (lost * log(LOST_TIMES) - all * usual * (LOST_TIMES - 1)));
}

/* Whether the connections of the path are up and idle while another path of its two hosts carries data. */
static bool is_avoided(const struct live *live, const struct end *e)
{
	return !e->missing && !e->down && !slow_has_data(e) && live->pairs[e->pair].carries;
}

static void add_evidence(struct end *e)
{
	e->all = 0;
	e->worst = PATH_DOWN;
	for (int f = 0; f < FAULTS; f++) {
		e->all += e->evidence[f];
		if (e->evidence[f] > e->evidence[e->worst])
			e->worst = (enum fault)f;
	}
}

/*
 * Decides whether the path is bad. The plugin measures paths too: if it moves data away from this one, the evidence
 * gained until then counts twice.
 */
static void judge_end(const struct live *live, struct end *e)
{
	double before = e->all, gained = e->gained;

	add_evidence(e);
	e->gained = e->all > before ? gained + e->all - before : 0;
	if (gained > 0 && is_avoided(live, e)) {
		weigh(&e->evidence[e->worst], gained);
		e->gained = 0;
		add_evidence(e);
	}
	if (e->all < BROKE / 2)
		e->grew = 0;
	e->grew += e->all > before;
	e->bad = e->bad ? e->all >= GOOD : e->all >= 1 && e->grew >= GREW;
}

static void note_ends(struct live *live, unsigned slot)
{
	struct usual_speed usual = slow_look(live, slot);
	double lost = usual_loss(live);

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		weigh_down(e, slot);
		weigh_slow(e, &usual);
		weigh_lossy(e, lost, slot);
		judge_end(live, e);
	}
}

/* Computes r->cpu over the window. Returns whether the rank is short of processor time by itself. */
static bool is_short_of_cpu(struct rank *r, unsigned slot)
{
	long long ran = 0, waited = 0;

	r->cpu = -1;
	r->wants_cpu = r->waited_of[slot] >= STARVED_MS;
	for (int k = 0; k < WINDOW; k++) {
		if (r->looks < WINDOW && !r->ran_of[k] && !r->waited_of[k])
			continue;
		if (r->ran_of[k] < 0 || r->waited_of[k] < 0)
			return false;
		ran += r->ran_of[k];
		waited += r->waited_of[k];
	}
	if (r->looks < STARVED_KNOWN)
		return false;
	r->cpu = ran + waited ? (double)ran / (double)(ran + waited) : 1;
	return r->cpu < STARVED && waited >= STARVED_MS * (long long)r->looks;
}

static void note_ranks(struct live *live, unsigned slot)
{
	uint64_t mark = memory_mark();
	double *shares = memory_get(live->rank_count * sizeof(*shares));
	bool *is_short = memory_get(live->rank_count * sizeof(*is_short));
	size_t count = 0;
	double usual;

	for (size_t i = 0; i < live->rank_count; i++) {
		is_short[i] = is_short_of_cpu(&live->ranks[i], slot);
		if (live->ranks[i].cpu >= 0 && !live->ranks[i].silent_ms)
			shares[count++] = live->ranks[i].cpu;
	}
	usual = doubles_median(shares, count);
	for (size_t i = 0; i < live->rank_count; i++) {
		struct rank *r = &live->ranks[i];

		r->starved = is_short[i] && r->cpu < STARVED_BY * usual ? r->starved + 1 : 0;
	}
	memory_release(mark);
}

void live_look(struct live *live, const json_t *hosts)
{
	unsigned slot = ++live->look % WINDOW;
	const json_t *host;
	size_t i;

	for (size_t k = 0; k < live->end_count; k++) {
		struct end *e = &live->ends[k];

		e->seen = false;
		e->packets_of[slot] = e->resent_of[slot] = 0;
		e->now = (struct speed){ 0 };
	}
	for (size_t k = 0; k < live->rank_count; k++)
		live->ranks[k].seen = false;
	index_tables(live);
	note_names(live, hosts);
	json_array_foreach (hosts, i, host)
		take_host(live, hosts, host);
	note_pairs(live);
	forget(live);
	note_ends(live, slot);
	note_ranks(live, slot);
}
