/* SPDX-License-Identifier: Apache-2.0 */
/* Clock offset from the best of several round trips; see clock.h. */
#include "clock.h"

/* Limits clocks to 1970 … 2106, so that sums and differences fit into 64 bits. */
#define NS_MAX ((int64_t)UINT32_MAX * 1000000000)

static bool is_time(int64_t ns)
{
	return ns >= 0 && ns <= NS_MAX;
}

bool clock_estimate(const struct clock_sample *samples, size_t count, struct clock_offset *out)
{
	bool found = false;

	for (size_t i = 0; i < count; i++) {
		const struct clock_sample *s = &samples[i];
		int64_t trip;

		if (!is_time(s->asked) || !is_time(s->seen) || !is_time(s->replied) ||
		    !is_time(s->answered) || s->replied < s->seen || s->answered < s->asked)
			continue;
		trip = (s->answered - s->asked) - (s->replied - s->seen);
		if (trip < 0 || (found && trip / 2 + 1 >= out->error_ns))
			continue;
		out->offset_ns = ((s->seen - s->asked) + (s->replied - s->answered)) / 2;
		out->error_ns = trip / 2 + 1;
		found = true;
	}
	return found;
}
