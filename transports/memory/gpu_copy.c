/* SPDX-License-Identifier: Apache-2.0 */
/* Bounces, and copies between them and GPU memory; see gpu.h. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/os.h"
#include "memory/copy.h"
#include "memory/gpu_internal.h"

#define WAIT_MS 10000 /* a copy that takes longer has failed */
#define SETTLES 3     /* max attempts to see both streams complete */

/* --- bounces --- */

static int take_bit(_Atomic uint64_t *bits)
{
	uint64_t free = atomic_load_explicit(bits, memory_order_relaxed);

	while (free)
		if (atomic_compare_exchange_weak_explicit(bits, &free, free & (free - 1),
							  memory_order_acquire,
							  memory_order_relaxed))
			return __builtin_ctzll(free);
	return -1;
}

static void give_bit(_Atomic uint64_t *bits, int bit)
{
	atomic_fetch_or_explicit(bits, 1ull << bit, memory_order_release);
}

int gpu_bounce_take(struct gpu *gpu)
{
	int bounce = take_bit(&gpu->bounces);
	bool is_short = bounce < 0;

	if (atomic_load_explicit(&gpu->is_short, memory_order_relaxed) != is_short)
		atomic_store_explicit(&gpu->is_short, is_short, memory_order_relaxed);
	return bounce;
}

uint8_t *gpu_bounce_memory(const struct gpu *gpu, int bounce)
{
	return gpu->memory + (size_t)bounce * GPU_BOUNCE_BYTES;
}

bool gpu_is_short(const struct gpu *gpu)
{
	return atomic_load_explicit(&gpu->is_short, memory_order_relaxed);
}

/* --- copies --- */

/* gpu_leave after a call for a copy of this bounce. After an error the copy may be in progress all the same. */
static int leave_copy(struct gpu *gpu, struct gpu_call *call, int error, int bounce)
{
	if (anynet_unlikely(error))
		give_bit(&gpu->unsure, bounce);
	return gpu_leave(gpu, call, error);
}

int gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes)
{
	struct gpu_call call;
	int error = gpu_enter(gpu, &call);

	if (!error)
		error = gpus.cuda.memcpy_to_host(gpu_bounce_memory(gpu, bounce), (uintptr_t)from,
						bytes, gpu->out);
	if (!error)
		error = gpus.cuda.event_record(gpu->events[bounce], gpu->out);
	return leave_copy(gpu, &call, error, bounce);
}

/* The address of the line of LL128 (memory/copy.h) with this address. */
static uint64_t line_of(uint64_t addr)
{
	return addr - addr % COPY_LINE_BYTES;
}

/* Copies the bytes [from, end) of every line within `bytes` at `to`. All whole lines go in one copy, a partial line at
 * either end in another. */
static int copy_of_lines(struct gpu *gpu, uint64_t to, const uint8_t *host, size_t bytes,
			 size_t from, size_t end)
{
	uint64_t first = anynet_min(to + bytes, line_of(to + COPY_LINE_BYTES - 1));
	uint64_t last = anynet_max(first, line_of(to + bytes));
	const struct cuda_copy_2d rows = {
		.from_type = CUDA_MEMORY_HOST,
		.from_host = host + (first - to) + from,
		.from_pitch = COPY_LINE_BYTES,
		.to_type = CUDA_MEMORY_DEVICE,
		.to_device = first + from,
		.to_pitch = COPY_LINE_BYTES,
		.width = end - from,
		.rows = (last - first) / COPY_LINE_BYTES,
	};
	const uint64_t ends[2][2] = { { to, first }, { last, to + bytes } };
	int error = 0;

	if (rows.rows)
		error = gpus.cuda.memcpy_2d(&rows, gpu->in);
	for (int i = 0; i < 2 && !error; i++) {
		uint64_t line = line_of(ends[i][0]);
		uint64_t begin = anynet_max(ends[i][0], line + from);
		uint64_t stop = anynet_min(ends[i][1], line + end);

		if (begin < stop)
			error = gpus.cuda.memcpy_to_device(begin, host + (begin - to), stop - begin,
							  gpu->in);
	}
	return error;
}

static int copy_to_device(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled)
{
	int error;

	if (anynet_likely(!polled))
		return gpus.cuda.memcpy_to_device((uintptr_t)to, from, bytes, gpu->in);
	error = copy_of_lines(gpu, (uintptr_t)to, from, bytes, 0, COPY_LAST_WORD);
	return error ? error
		     : copy_of_lines(gpu, (uintptr_t)to, from, bytes, COPY_LAST_WORD,
				     COPY_LINE_BYTES);
}

int gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled)
{
	struct gpu_call call;
	int error = gpu_enter(gpu, &call);

	if (!error)
		error = copy_to_device(gpu, to, gpu_bounce_memory(gpu, bounce), bytes, polled);
	if (!error)
		error = gpus.cuda.event_record(gpu->events[bounce], gpu->in);
	return leave_copy(gpu, &call, error, bounce);
}

int gpu_copy_done(struct gpu *gpu, int bounce)
{
	struct gpu_call call;
	int error = gpu_enter(gpu, &call);

	if (!error)
		error = gpus.cuda.event_query(gpu->events[bounce]);
	if (error == CUDA_NOT_READY) {
		gpu_leave(gpu, &call, 0);
		return 0;
	}
	return leave_copy(gpu, &call, error, bounce) ? -EIO : 1;
}

int gpu_copy_wait(struct gpu *gpu, int bounce)
{
	uint64_t until = os_now_ms() + WAIT_MS;
	int done;

	while (!(done = gpu_copy_done(gpu, bounce))) {
		if (os_now_ms() >= until) {
			atomic_store(&gpu->error, CUDA_NOT_READY);
			give_bit(&gpu->unsure, bounce);
			return -EIO;
		}
		sched_yield();
	}
	return done < 0 ? done : 0;
}

/* Records the bounce's event on the stream and waits for it. True = everything on the stream is done. */
static bool is_through(struct gpu *gpu, int bounce, void *stream)
{
	struct gpu_call call;
	int error = gpu_enter(gpu, &call);

	if (!error)
		error = gpus.cuda.event_record(gpu->events[bounce], stream);
	return !gpu_leave(gpu, &call, error) && !gpu_copy_wait(gpu, bounce);
}

/* Before the bounce is reused: makes sure that no copy reads or writes it. If that cannot be known, the GPU is lost. */
static void settle(struct gpu *gpu, int bounce)
{
	enum gpu_state made = GPU_MADE;
	int waited = CUDA_NOT_READY;
	uint64_t until;

	if (anynet_likely(!(atomic_load(&gpu->unsure) & 1ull << bounce)))
		return;
	until = os_now_ms() + WAIT_MS;
	for (int tries = 0; tries < SETTLES && os_now_ms() < until; tries++) {
		if (is_through(gpu, bounce, gpu->out) && is_through(gpu, bounce, gpu->in)) {
			atomic_fetch_and(&gpu->unsure, ~(1ull << bounce));
			return;
		}
	}
	atomic_compare_exchange_strong(&gpu->error, &waited, CUDA_UNKNOWN);
	atomic_compare_exchange_strong(&gpu->state, &made, GPU_LOST);
}

void gpu_bounce_give(struct gpu *gpu, int bounce)
{
	settle(gpu, bounce);
	give_bit(bounce < GPU_WAITED ? &gpu->waited : &gpu->bounces, bounce);
}

static int take_waited(struct gpu *gpu)
{
	int bounce;

	while ((bounce = take_bit(&gpu->waited)) < 0)
		sched_yield(); /* a holder waits only for the copy engine */
	return bounce;
}

int gpu_fetch(struct gpu *gpu, void *to, const void *from, size_t bytes)
{
	int bounce = take_waited(gpu), ret = 0;

	for (size_t at = 0; at < bytes && !ret; at += GPU_BOUNCE_BYTES) {
		size_t piece = anynet_min(bytes - at, GPU_BOUNCE_BYTES);

		ret = gpu_copy_out(gpu, bounce, (const uint8_t *)from + at, piece);
		if (!ret)
			ret = gpu_copy_wait(gpu, bounce);
		if (!ret)
			memcpy((uint8_t *)to + at, gpu_bounce_memory(gpu, bounce), piece);
	}
	gpu_bounce_give(gpu, bounce);
	return ret;
}

int gpu_put(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled)
{
	int bounce = take_waited(gpu), ret = 0;

	for (size_t at = 0; at < bytes && !ret; at += GPU_BOUNCE_BYTES) {
		size_t piece = anynet_min(bytes - at, GPU_BOUNCE_BYTES);

		memcpy(gpu_bounce_memory(gpu, bounce), (const uint8_t *)from + at, piece);
		ret = gpu_copy_in(gpu, bounce, (uint8_t *)to + at, piece, polled);
		if (!ret)
			ret = gpu_copy_wait(gpu, bounce);
	}
	gpu_bounce_give(gpu, bounce);
	return ret;
}
