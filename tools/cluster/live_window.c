/* SPDX-License-Identifier: Apache-2.0 */
/* Paths and ranks, look after look; see live_window.h. */
#include "live_window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/member.h"

#define LOST       0.02 /* of all packets */
#define LOST_LEAST 8    /* and so many in the last looks */
#define SLOW       0.25 /* of the median rate of all paths */
/* Times the median round trip: what waits is in the path, and not in the program. */
#define QUEUED       2.0
#define SLOW_PACKETS 30   /* in the window: fewer tell no rate */
#define STARVED      0.25 /* of the processor time that it wants … */
#define STARVED_BY   0.4  /* … and of the median of all */

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

const char *live_name(const json_t *hosts, const char *host, long long pid)
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
	const char *other = live_name(hosts, member_text(path, "for_host"),
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

void live_look(struct live *live, const json_t *hosts)
{
	unsigned slot = ++live->look % WINDOW;
	const json_t *host;
	size_t i;

	for (size_t k = 0; k < live->end_count; k++) {
		struct end *e = &live->ends[k];

		e->seen = false;
		e->packets_of[slot] = e->resent_of[slot] = 0;
		e->rates[slot] = e->rtts[slot] = 0;
	}
	for (size_t k = 0; k < live->rank_count; k++)
		live->ranks[k].seen = false;
	json_array_foreach(hosts, i, host) take_host(live, hosts, host);
	forget(live);
	note_ends(live);
	note_ranks(live);
}
