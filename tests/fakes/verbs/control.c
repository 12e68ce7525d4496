/* SPDX-License-Identifier: Apache-2.0 */
/* fake_verbs.h, except for orders to other processes (wire.c). */
#include "fake.h"

#include <string.h>

int fake_verbs_script(const char *text)
{
	int ret;

	fake_lock();
	ret = describe() ? -1 : obey(text);
	fake_unlock();
	return ret;
}

void fake_verbs_reset(void)
{
	struct fake_verbs_counts *counts = &fake.counts;

	fake_lock();
	faults_forget();
	memset(&counts->send_calls, 0,
	       sizeof(*counts) - offsetof(struct fake_verbs_counts, send_calls));
	__atomic_store_n(&fake.polls, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&fake.empty_polls, 0, __ATOMIC_RELAXED);
	fake_unlock();
}

struct fake_verbs_counts counts_now(void)
{
	struct fake_verbs_counts counts = fake.counts;

	counts.polls = __atomic_load_n(&fake.polls, __ATOMIC_RELAXED);
	counts.empty_polls = __atomic_load_n(&fake.empty_polls, __ATOMIC_RELAXED);
	return counts;
}

void fake_verbs_counts(struct fake_verbs_counts *counts)
{
	fake_lock();
	*counts = counts_now();
	fake_unlock();
}
