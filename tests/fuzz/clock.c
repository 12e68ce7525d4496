/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <stddef.h>

#include "transports/base/os.h"

#define SECOND_MS    1000
#define CALLS_PER_MS 2 /* a wait for a future time ends */

static uint64_t now_ms = 1000 * SECOND_MS, noise;
static unsigned calls;

__typeof__(os_now_ms) __wrap_os_now_ms;
__typeof__(os_random) __wrap_os_random;

void clock_start(void)
{
	now_ms += 2 * SECOND_MS - now_ms % SECOND_MS;
	calls = 0;
	noise = 0;
}

void clock_pass(uint32_t ms)
{
	now_ms += ms;
}

uint64_t __wrap_os_now_ms(void)
{
	if (++calls % CALLS_PER_MS == 0)
		now_ms++;
	return now_ms;
}

int __wrap_os_random(void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		noise = noise * 6364136223846793005u + 1442695040888963407u;
		((uint8_t *)data)[i] = (uint8_t)(noise >> 56);
	}
	return 0;
}
