/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow paths; see live_slow.h. A path is slow if its rate is far below the median. The rate is bytes acknowledged per
 * time with data in flight, both counted by the kernel, or by the plugin for a queue pair. A slow path has a queue,
 * which lengthens the round trip; without a queue, the program causes the low rate.
 *
 * One look shows a very slow path, which the plugin leaves within a second. The kernel counts time in timer ticks, so
 * that a few milliseconds are too coarse; and on busy hosts the rates of one look scatter by more than a factor of
 * two. So a path that keeps its share although it is slower is judged by the sums of the whole window. It has data in
 * flight for most of the time. One that carries a single piece now and then has a low rate too, as each takes a round
 * trip.
 */
#include "live_slow.h"

#include <math.h>
#include <string.h>

#include "tools/shared/doubles.h"
#include "tools/shared/memory.h"

#define SLOW         1.0       /* per second in flight, for (rate + rtt) / 2 of slow_weight */
#define FAST         (1.0 / 3) /* subtracted in a look without a low rate or a queue */
#define SLOW_BYTES   20000     /* minimum acknowledged in a look to measure a rate */
#define SLOW_BUSY_US 20000     /* minimum time in flight for that */
#define QUEUED       (-0.5)    /* minimum of `rtt` in slow_weight: 1.4 times the median */
#define QUEUED_MOST  2.0       /* limit of `rtt` */

#define KNOWN     3         /* looks of the window that must have data */
#define ENOUGH    5         /* the data of so many looks */
#define KEPT_SLOW (1.0 / 3) /* added in a look if the window shows a low rate and a queue */
/* For that: times the median round trip. There is a short queue only, as the plugin gives the path little. */
#define KEPT_QUEUE 1.2
#define KEPT_BUSY  0.5 /* minimum of its time in flight, times the median */
#define SLOWER     0.9 /* a path below this part of another's rate may be the cause for the other */

static bool is_enough(const struct speed *s, double looks)
{
	return s->acked >= looks * SLOW_BYTES && s->busy_us >= looks * SLOW_BUSY_US &&
	       s->rtt_us > 0;
}

bool slow_has_data(const struct end *e)
{
	return is_enough(&e->now, 1);
}

static double rate_of(const struct speed *s)
{
	return s->acked * 1e6 / s->busy_us;
}

/* Sums up the window: the median round trip, because one look may be long for another reason. */
static struct speed window_of(const struct end *e)
{
	struct speed sum = { 0 };
	double rtts[WINDOW];
	size_t count = 0;

	for (int k = 0; k < WINDOW; k++) {
		sum.acked += e->speed_of[k].acked;
		sum.busy_us += e->speed_of[k].busy_us;
		if (e->speed_of[k].rtt_us > 0)
			rtts[count++] = e->speed_of[k].rtt_us;
	}
	sum.rtt_us = count < KNOWN ? 0 : doubles_median(rtts, count);
	return sum;
}

struct usual_speed slow_look(struct live *live, unsigned slot)
{
	uint64_t mark = memory_mark();
	size_t bytes = live->end_count * sizeof(double);
	double *rates = memory_get(bytes), *rtts = memory_get(bytes);
	double *window_rates = memory_get(bytes), *window_rtts = memory_get(bytes);
	double *window_busy = memory_get(bytes);
	struct usual_speed usual;
	size_t count = 0, known = 0;

	for (size_t i = 0; i < live->end_count; i++) {
		struct end *e = &live->ends[i];

		e->speed_of[slot] = e->now;
		e->window = window_of(e);
		if (is_enough(&e->window, ENOUGH)) {
			window_rtts[known] = e->window.rtt_us;
			window_busy[known] = e->window.busy_us;
			window_rates[known++] = rate_of(&e->window);
		}
		if (!slow_has_data(e))
			continue;
		e->rate = rate_of(&e->now);
		rtts[count] = e->now.rtt_us;
		rates[count++] = e->rate;
	}
	usual = (struct usual_speed){
		.rate = count > 2 ? doubles_median(rates, count) : 0,
		.rtt_us = doubles_median(rtts, count),
		.window_rate = known > 2 ? doubles_median(window_rates, known) : 0,
		.window_rtt_us = doubles_median(window_rtts, known),
		.window_busy_us = doubles_median(window_busy, known),
	};
	memory_release(mark);
	return usual;
}

/* `rate` is log2 of how many times the rate is below the median, less 1; `rtt` is the same for the round trip. */
static double look_weight(const struct end *e, const struct usual_speed *usual)
{
	double rate = log2(usual->rate / e->rate) - 1;
	double rtt = log2(e->now.rtt_us / usual->rtt_us) - 1;

	if (rate < 0 || rtt < QUEUED)
		return -FAST;
	return fmin(e->now.busy_us / 1e6, 1) * SLOW * (rate + fmin(rtt, QUEUED_MOST)) / 2;
}

static bool was_slow(const struct end *e, const struct usual_speed *usual)
{
	return e->now.acked > 0 && usual->window_rate > 0 && is_enough(&e->window, ENOUGH) &&
	       rate_of(&e->window) < usual->window_rate / 2 &&
	       e->window.rtt_us > KEPT_QUEUE * usual->window_rtt_us &&
	       e->window.busy_us > KEPT_BUSY * usual->window_busy_us;
}

bool slow_weight(const struct end *e, const struct usual_speed *usual, double *more)
{
	bool measured = slow_has_data(e) && usual->rate > 0, slow = was_slow(e, usual);

	if (!measured && !slow)
		return false;
	*more = measured ? look_weight(e, usual) : 0;
	if (slow && *more < KEPT_SLOW)
		*more = KEPT_SLOW;
	return true;
}

static bool shares_host(const struct end *a, const struct end *b)
{
	return !strcmp(a->host, b->host) || !strcmp(a->host, b->other) ||
	       !strcmp(a->other, b->host) || !strcmp(a->other, b->other);
}

static bool is_same_path(const struct end *a, const struct end *b)
{
	return (!strcmp(a->host, b->host) && !strcmp(a->other, b->other)) ||
	       (!strcmp(a->host, b->other) && !strcmp(a->other, b->host));
}

bool slow_by_another(const struct live *live, const struct end *e)
{
	for (size_t i = 0; i < live->end_count; i++) {
		const struct end *o = &live->ends[i];

		if (o->evidence[PATH_SLOW] > 0 && o->rate > 0 && o->rate < SLOWER * e->rate &&
		    shares_host(o, e) && !is_same_path(o, e))
			return true;
	}
	return false;
}
