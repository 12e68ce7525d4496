/* SPDX-License-Identifier: Apache-2.0 */
/* anynet perf: the progress loop over the parts of an operation. */
#include "perf.h"

int perf_drive(struct perf_rank *r, int count, int (*step)(struct perf_rank *r, int part))
{
	int open;

	do {
		bool moved = false;

		open = 0;
		for (int i = 0; i < count; i++) {
			int ret = step(r, i);

			if (ret < 0)
				return ret;
			open += ret != PERF_DONE;
			moved |= ret == 1;
		}
		if (moved)
			group_fed(r->group);
		else if (open && group_idle(r->group))
			return -GROUP_ERROR;
	} while (open);
	return 0;
}
