/* SPDX-License-Identifier: Apache-2.0 */
/* Time and random numbers; see os.h. */
#include "base/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "base/libc_text.h"

/* A pause of the process or the machine counts as no more than this. Otherwise all deadlines would expire in it. */
#define PAUSE_COUNTS_MS 1000

/* Store `value` if it is larger. Returns the previous value. */
static uint64_t advance(_Atomic uint64_t *stored, uint64_t value)
{
	uint64_t before = atomic_load(stored);

	while (value > before && !atomic_compare_exchange_weak(stored, &before, value))
		;
	return before;
}

/* `skipped` is the sum of all pauses that were left out, `told` the last result. The first thread that calls after a
 * pause adds it to `skipped`, for all threads. A thread may be preempted between any two steps, so a late reading of
 * the clock must not count as a pause, and results must not decrease. */
uint64_t os_now_ms(void)
{
	static _Atomic uint64_t skipped, told;
	struct timespec ts;
	uint64_t clock, out, before, now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	clock = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
	out = atomic_load(&skipped);
	do {
		before = atomic_load(&told);
		now = clock > out ? clock - out : 0;
		if (!before || now <= before + PAUSE_COUNTS_MS)
			break;
		now = before + PAUSE_COUNTS_MS;
	} while (!atomic_compare_exchange_weak(&skipped, &out, clock - now));
	before = advance(&told, now);
	return anynet_max(now, before);
}

uint64_t os_now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void os_sleep_us(unsigned us)
{
	struct timespec pause = { .tv_nsec = (long)us * 1000 };

	nanosleep(&pause, NULL);
}

static ANYNET_COLD int no_random(int err)
{
	anynet_warn("the kernel provides no random numbers: %s; connections cannot be made",
		    error_text(-err));
	return err;
}

int os_random(void *data, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t n = getrandom((char *)data + done, bytes - done, 0);

		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			return no_random(-errno);
	}
	return 0;
}
