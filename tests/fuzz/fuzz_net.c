/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "input.h"
#include "transports/wire/secret.h"
#include "unit/local_net.h"

const char *__asan_default_options(void);

/* A peer may name any size; the allocation may fail. */
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

/* A file that is removed with the process. */
static int make_secret(void)
{
	static const char text[] = "what the fuzzer need not guess";
	int fd = memfd_create("secret", MFD_CLOEXEC);

	must(fd >= 0 && !fchmod(fd, 0600) && write(fd, text, sizeof(text)) == sizeof(text));
	return fd;
}

bool fuzz_net_secret(bool wanted)
{
	static int file = -1;
	char path[64] = "";

	if (secret_known() == wanted)
		return true;
	if (file < 0)
		file = make_secret();
	if (wanted)
		snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	secret_start(path);
	if (!secret_problem())
		return true;
	secret_start("");
	return false;
}
