/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The description: what there is, and what befalls it. FAKE_CUDA has it, or names a file with it by a
 * path that starts with "/"; without the variable there is one device. Lines end with a newline or
 * ";", "#" starts a comment.
 *
 *   device [PROPERTY…]      gpudirect=0 dmabuf=0: what its attributes say; up to two of these
 *   version N               cuDriverGetVersion (12040)
 *
 * Also at any time (fake_cuda_script):
 *
 *   hold N                  a copy on a stream is begun only when it has been the first there for N
 *                           queries of the stream, or of events behind it, or is waited for; 0 = at once
 *   fail CALL [nth=K] [count=N] code=CODE   its K-th call from now, and N in all, do nothing but
 *                           return that; CALL "copy": a copy on a stream, and its context is of no use
 *                           from then on
 *   capture on|off          a thread is capturing a stream: calls that may spoil it are wrong, but in
 *                           threads whose mode says otherwise
 *   busy on|off             a kernel is running that does not end: nothing happens on the legacy default
 *                           stream, and on streams that wait for it
 *   locks on|off            while it runs, cuMemFree waits for it, with its context's lock: no other call in that
 *                           context returns
 *   queues one|many         one: what is on streams of one context and priority is begun in the order in which
 *                           it was asked for, whatever stream it is on
 *   sectors on|off          what is copied to device memory comes in pieces of 32 bytes, in any order
 *   no-faults                   none of these
 */
#include "fake.h"
#include "fakes/script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAILURES_MAX 16

static struct failure {
	char call[NAME_BYTES];
	unsigned long long nth, count, code, seen;
} failures[FAILURES_MAX];
static int failure_count;

void failures_forget(void)
{
	failure_count = 0;
}

CUresult failure_of(const char *name)
{
	CUresult code = CUDA_SUCCESS;

	for (int i = 0; i < failure_count; i++) {
		struct failure *failure = &failures[i];

		if (strcmp(failure->call, name))
			continue;
		failure->seen++;
		if (failure->seen >= failure->nth && failure->seen - failure->nth < failure->count)
			code = (CUresult)failure->code;
	}
	return code;
}

/* By the names of the calls, without "_v2". */
static void plain_name(const char *name, char *plain)
{
	size_t length = strlen(name);

	if (length > 3 && !strcmp(name + length - 3, "_v2"))
		length -= 3;
	snprintf(plain, NAME_BYTES, "%.*s", (int)length, name);
}

static bool is_call(const char *name)
{
	static const char *const names[] = { "copy",
#define CUDA_NAME(name, arguments) #name,
					     CUDA_CALLS(CUDA_NAME)
#undef CUDA_NAME
	};
	char plain[NAME_BYTES];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		plain_name(names[i], plain);
		if (!strcmp(name, plain))
			return true;
	}
	return false;
}

static int fail(char *words)
{
	struct failure failure = { .nth = 1, .count = 1 };
	const char *name = strtok_r(words, " \t", &words), *word;
	char rest;

	if (!name || failure_count == FAILURES_MAX)
		return -1;
	plain_name(name, failure.call);
	if (!is_call(failure.call))
		return -1;
	while ((word = strtok_r(words, " \t", &words)))
		if (sscanf(word, "nth=%llu%c", &failure.nth, &rest) != 1 &&
		    sscanf(word, "count=%llu%c", &failure.count, &rest) != 1 &&
		    sscanf(word, "code=%llu%c", &failure.code, &rest) != 1)
			return -1;
	if (!failure.code)
		return -1;
	failures[failure_count++] = failure;
	return 0;
}

static int add_device(char *words)
{
	struct fake_device device = { .gpudirect = 1, .dmabuf = 1 };
	const char *word;
	char rest;

	if (fake.owner || fake.device_count == DEVICES_MAX)
		return -1;
	while ((word = strtok_r(words, " \t", &words)))
		if (sscanf(word, "gpudirect=%d%c", &device.gpudirect, &rest) != 1 &&
		    sscanf(word, "dmabuf=%d%c", &device.dmabuf, &rest) != 1)
			return -1;
	fake.devices[fake.device_count++] = device;
	return 0;
}

static int set_version(char *words)
{
	char rest;

	return sscanf(words, "%d%c", &fake.version, &rest) == 1 ? 0 : -1;
}

static int set_hold(char *words)
{
	unsigned long long hold;
	char rest;

	if (sscanf(words, "%llu%c", &hold, &rest) != 1)
		return -1;
	fake.hold = hold;
	return 0;
}

static int set_queues(char *words)
{
	fake.one_queue = !strcmp(words, "one");
	return fake.one_queue || !strcmp(words, "many") ? 0 : -1;
}

static int no_faults(char *words)
{
	failures_forget();
	fake.hold = 0;
	fake.capturing = fake.busy = fake.locks = fake.one_queue = fake.sectors = false;
	return *words ? -1 : 0;
}

static const struct script_command commands[] = {
	{ "device", add_device, false, NULL },
	{ "version", set_version, false, NULL },
	{ "hold", set_hold, false, NULL },
	{ "fail", fail, false, NULL },
	{ "queues", set_queues, false, NULL },
	{ "no-faults", no_faults, false, NULL },
	{ .name = "capture", .flag = &fake.capturing },
	{ .name = "busy", .flag = &fake.busy },
	{ .name = "locks", .flag = &fake.locks },
	{ .name = "sectors", .flag = &fake.sectors },
};
static const struct script script = { "cuda", commands, sizeof(commands) / sizeof(*commands) };

int obey(const char *text)
{
	if (script_obey(&script, text, false))
		return -1;
	engine_wake();
	fake_idle();
	return 0;
}

int describe(void)
{
	char text[SCRIPT_BYTES];

	if (script_of("FAKE_CUDA", "", text) || obey(text))
		return -1;
	return fake.device_count ? 0 : obey("device");
}

int fake_cuda_script(const char *text)
{
	int ret;

	fake_lock();
	ret = obey(text);
	fake_unlock();
	return ret;
}

void fake_cuda_reset(void)
{
	struct fake_cuda_counts *counts = &fake.counts;

	fake_lock();
	obey("no-faults");
	memset(&counts->copies, 0, sizeof(*counts) - offsetof(struct fake_cuda_counts, copies));
	fake_unlock();
}

void fake_cuda_counts(struct fake_cuda_counts *counts)
{
	fake_lock();
	*counts = fake.counts;
	fake_unlock();
}
