/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STALE 0xdd /* initial contents of a bounce */

static struct {
	struct bounce {
		bool taken, under_way;
		void *to;
		const void *from;
		size_t bytes;
		unsigned asked;
	} bounces[FAKE_GPU_BOUNCES];
	uint8_t memory[FAKE_GPU_BOUNCES][GPU_BOUNCE_BYTES];
	unsigned count, polls, waits;
	bool is_short;
} fake;

void fake_gpu_start(unsigned bounces, unsigned polls)
{
	memset(fake.bounces, 0, sizeof(fake.bounces));
	fake.count = bounces;
	fake.polls = polls;
	fake.waits = 0;
	fake.is_short = false;
}

struct gpu *fake_gpu(void)
{
	return (struct gpu *)(void *)&fake;
}

unsigned fake_gpu_taken(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < fake.count; i++)
		count += fake.bounces[i].taken;
	return count;
}

unsigned fake_gpu_waits(void)
{
	return fake.waits;
}

/* --- in place of gpu.c --- */

int __wrap_gpu_bounce_take(struct gpu *gpu);
void __wrap_gpu_bounce_give(struct gpu *gpu, int bounce);
uint8_t *__wrap_gpu_bounce_memory(const struct gpu *gpu, int bounce);
bool __wrap_gpu_is_short(const struct gpu *gpu);
int __wrap_gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes);
int __wrap_gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled);
int __wrap_gpu_copy_done(struct gpu *gpu, int bounce);
int __wrap_gpu_copy_wait(struct gpu *gpu, int bounce);

static struct bounce *bounce_of(const struct gpu *gpu, int number)
{
	assert_ptr_equal(gpu, fake_gpu());
	assert_in_range(number, 0, fake.count - 1);
	assert_true(fake.bounces[number].taken);
	return &fake.bounces[number];
}

int __wrap_gpu_bounce_take(struct gpu *gpu)
{
	assert_ptr_equal(gpu, fake_gpu());
	for (unsigned i = 0; i < fake.count; i++) {
		if (fake.bounces[i].taken)
			continue;
		fake.bounces[i] = (struct bounce){ .taken = true };
		memset(fake.memory[i], STALE, sizeof(fake.memory[i]));
		fake.is_short = false;
		return (int)i;
	}
	fake.is_short = true;
	return -1;
}

void __wrap_gpu_bounce_give(struct gpu *gpu, int bounce)
{
	assert_false(bounce_of(gpu, bounce)->under_way);
	bounce_of(gpu, bounce)->taken = false;
}

uint8_t *__wrap_gpu_bounce_memory(const struct gpu *gpu, int bounce)
{
	bounce_of(gpu, bounce);
	return fake.memory[bounce];
}

bool __wrap_gpu_is_short(const struct gpu *gpu)
{
	assert_ptr_equal(gpu, fake_gpu());
	return fake.is_short;
}

static int begin(struct gpu *gpu, int number, void *to, const void *from, size_t bytes)
{
	struct bounce *bounce = bounce_of(gpu, number);

	assert_false(bounce->under_way);
	assert_in_range(bytes, 1, GPU_BOUNCE_BYTES);
	bounce->under_way = true;
	bounce->asked = 0;
	bounce->to = to;
	bounce->from = from;
	bounce->bytes = bytes;
	return 0;
}

int __wrap_gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes)
{
	return begin(gpu, bounce, fake.memory[bounce], from, bytes);
}

int __wrap_gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled)
{
	(void)polled;
	return begin(gpu, bounce, to, fake.memory[bounce], bytes);
}

static void finish(struct bounce *bounce)
{
	memcpy(bounce->to, bounce->from, bounce->bytes);
	bounce->under_way = false;
}

int __wrap_gpu_copy_done(struct gpu *gpu, int number)
{
	struct bounce *bounce = bounce_of(gpu, number);

	if (bounce->under_way && bounce->asked++ >= fake.polls)
		finish(bounce);
	return !bounce->under_way;
}

int __wrap_gpu_copy_wait(struct gpu *gpu, int number)
{
	struct bounce *bounce = bounce_of(gpu, number);

	fake.waits += bounce->under_way;
	if (bounce->under_way)
		finish(bounce);
	return 0;
}
