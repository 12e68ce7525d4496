/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that writes the statistics file; see stats.h. */
#include <pthread.h>

#include <nccl_net/stats.h>

#include "base/fd.h"
#include "base/thread.h"
#include "service/stats.h"

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* uses CLOCK_MONOTONIC; initialised by the first start */
	bool wanted, runs;
	unsigned forks; /* fd_forks when the thread was started */
} writer = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With writer.lock. False: it timed out. */
static bool wait_for_change(struct timespec until)
{
	return !pthread_cond_timedwait(&writer.changed, &writer.lock, &until);
}

/* Waits for the next look. False: no comm is left. Without a page there is nothing to do until then. */
static bool goes_on(bool writes)
{
	bool wanted;

	pthread_mutex_lock(&writer.lock);
	if (writer.wanted && writes)
		wait_for_change(thread_after(ANYNET_STATS_LOOK_MS));
	else if (writer.wanted)
		pthread_cond_wait(&writer.changed, &writer.lock);
	wanted = writer.wanted;
	pthread_mutex_unlock(&writer.lock);
	return wanted;
}

/* False: there are comms again. */
static bool ends(void)
{
	bool over;

	pthread_mutex_lock(&writer.lock);
	writer.runs = writer.wanted;
	pthread_cond_broadcast(&writer.changed);
	over = !writer.runs;
	pthread_mutex_unlock(&writer.lock);
	return over;
}

/* Calls stats_begin at least once, even if no comm is left by then, because that removes stale pages of other
 * processes. */
static void *write_stats(void *arg)
{
	do {
		stats_begin();
		while (goes_on(stats_look()))
			;
		stats_end();
	} while (!ends());
	return arg;
}

/* With writer.lock. */
static void start(void)
{
	static bool ready;
	pthread_condattr_t attr;
	pthread_t thread;

	if (!ready) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&writer.changed, &attr);
		pthread_condattr_destroy(&attr);
		ready = true;
	}
	writer.runs = !thread_start(&thread, "anynet-stats", write_stats, NULL);
	writer.forks = fd_forks();
	if (writer.runs)
		pthread_detach(thread);
}

void stats_want(bool wanted)
{
	wanted = wanted && stats_are_on();
	pthread_mutex_lock(&writer.lock);
	if (writer.wanted && !wanted && writer.runs)
		pthread_cond_broadcast(&writer.changed);
	writer.wanted = wanted;
	if (wanted && !writer.runs)
		start();
	pthread_mutex_unlock(&writer.lock);
}

bool stats_leave(uint64_t ms)
{
	struct timespec until = thread_after(ms);
	bool in_time = true, over;

	stats_want(false);
	pthread_mutex_lock(&writer.lock);
	while (writer.runs && writer.forks == fd_forks() && in_time)
		in_time = wait_for_change(until);
	over = !writer.runs;
	pthread_mutex_unlock(&writer.lock);
	return over;
}
