/* SPDX-License-Identifier: Apache-2.0 */
#include <nccl_net/log.h>

#include "input.h"
#include "unit/local_net.h"

const char *__asan_default_options(void);

/* A peer may name any size; memory for it may be refused. */
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

static void sink(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level;
	(void)flags;
	(void)file;
	(void)line;
	(void)fmt;
}

void fuzz_net_start(void)
{
	static bool started;

	if (started)
		return;
	started = true;
	anynet_log_set_sink(sink);
	local_net_start();
}
