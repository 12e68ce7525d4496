/* SPDX-License-Identifier: Apache-2.0 */
/* Copies to and from GPU memory; see gpu.h. */
#include "gpu.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/util.h>

#include "cuda.h"
#include "net.h"
#include "pinned.h"

#define BOUNCES 64
#define WAITED  2     /* of these for gpu_fetch and gpu_put, which give back what they take */
#define WAIT_MS 10000 /* a GPU that copies nothing for so long is lost */
#define SETTLES 3     /* tries to find out whether copies are under way */

enum gpu_state {
	GPU_NEW, /* its pool is not made yet, or in part */
	GPU_MADE,
	GPU_LOST,  /* what is under way cannot be known any more: it is not called again */
	GPU_RESET, /* the application has reset the device, and its context is gone: the same */
};

struct gpu {
	int ordinal;
	_Atomic enum gpu_state state;
	void *primary;   /* the device's context that the CUDA runtime uses … */
	void *context;   /* … and the one that copies are made in: ours, or that */
	void *out, *in;  /* streams, one each way */
	uint8_t *memory; /* ours, so that it stays when the context goes … */
	uint64_t pinned; /* … and CUDA's number for it as long as it is registered */
	void *events[BOUNCES];
	_Atomic uint64_t bounces, waited; /* bits of those that are free */
	_Atomic uint64_t unsure; /* of those that a copy may be under way of: a call has failed */
	_Atomic bool is_short;
	_Atomic int error;  /* the last */
	uint64_t scratch;   /* 0 = not asked for yet */
	struct gpu *former; /* the same before it was reset: comms may still hold bounces of that */
};

static struct {
	pthread_mutex_t lock;
	struct cuda cuda;
	struct gpu *gpus[GPUS_MAX];
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

static const char *error_text(int error, char *text, size_t bytes)
{
	const char *name = NULL, *words = NULL;

	all.cuda.get_error_name(error, &name);
	all.cuda.get_error_string(error, &words);
	snprintf(text, bytes, "%s (%s)", name ? name : "unknown",
		 words ? words : "no words for it");
	return text;
}

const char *gpu_why(const struct gpu *gpu, char *text, size_t bytes)
{
	if (atomic_load(&gpu->state) != GPU_RESET)
		return error_text(atomic_load(&gpu->error), text, bytes);
	snprintf(text, bytes, "the application has reset GPU %d (cudaDeviceReset)", gpu->ordinal);
	return text;
}

/* --- calls to CUDA: in the GPU's context, and whatever the thread or another one captures --- */

struct call {
	int mode; /* of the thread, before */
	bool entered;
};

/* A reset destroys the primary context with what is in it: its streams may not be called any more. The
 * registration of our memory ends with it. */
static int check_context(struct gpu *gpu)
{
	enum gpu_state made = GPU_MADE;
	uint64_t now = 0;
	int error;

	if (atomic_load_explicit(&gpu->state, memory_order_acquire) > GPU_MADE)
		return atomic_load(&gpu->error);
	if (!gpu->pinned)
		return 0;
	error = all.cuda.pointer_get_attribute(&now, CUDA_POINTER_BUFFER, (uintptr_t)gpu->memory);
	if (!error && now == gpu->pinned)
		return 0;
	atomic_store(&gpu->error, CUDA_CONTEXT_IS_DESTROYED);
	atomic_compare_exchange_strong(&gpu->state, &made, GPU_RESET);
	return CUDA_CONTEXT_IS_DESTROYED;
}

static int enter_context(void *context, int error, struct call *call)
{
	call->mode = CUDA_CAPTURE_RELAXED;
	all.cuda.thread_exchange_capture_mode(&call->mode);
	if (!error)
		error = all.cuda.ctx_push(context);
	call->entered = !error;
	return error;
}

static int enter(struct gpu *gpu, struct call *call)
{
	return enter_context(gpu->context, check_context(gpu), call);
}

/* `error` of what was done since; 0, or -EIO and the error is kept. */
static int leave(struct gpu *gpu, struct call *call, int error)
{
	void *context;

	if (call->entered)
		all.cuda.ctx_pop(&context);
	all.cuda.thread_exchange_capture_mode(&call->mode);
	if (anynet_likely(!error))
		return 0;
	atomic_store(&gpu->error, error);
	return -EIO;
}

/* --- finding a GPU and making its pool --- */

/* Of the highest priority: streams of default priority share the device's queues, of which there may be but one
 * (CUDA_DEVICE_MAX_CONNECTIONS), and there ours could stand behind a copy of the application's that waits for a
 * kernel of NCCL's, which waits for us. */
static int make_streams(struct gpu *gpu)
{
	int least, greatest, error = all.cuda.ctx_priority_range(&least, &greatest);

	if (!error && !gpu->out)
		error = all.cuda.stream_create(&gpu->out, CUDA_STREAM_NON_BLOCKING, greatest);
	if (!error && !gpu->in)
		error = all.cuda.stream_create(&gpu->in, CUDA_STREAM_NON_BLOCKING, greatest);
	return error;
}

static int pin_memory(struct gpu *gpu)
{
	int error = all.cuda.mem_host_register(gpu->memory, BOUNCES * GPU_BOUNCE_BYTES,
					       CUDA_HOST_PORTABLE);

	if (error)
		return error;
	error = all.cuda.pointer_get_attribute(&gpu->pinned, CUDA_POINTER_BUFFER,
					       (uintptr_t)gpu->memory);
	if (error)
		all.cuda.mem_host_unregister(gpu->memory);
	return error;
}

/* What is there from an earlier try that failed half-way stays. */
static int make_pool(struct gpu *gpu)
{
	int error = 0;

	if (!gpu->memory)
		gpu->memory = pinned_alloc(BOUNCES * GPU_BOUNCE_BYTES);
	if (!gpu->memory)
		return CUDA_OUT_OF_MEMORY;
	if (!gpu->pinned)
		error = pin_memory(gpu);
	if (!error)
		error = make_streams(gpu);
	for (int i = 0; i < BOUNCES && !error; i++)
		if (!gpu->events[i])
			error = all.cuda.event_create(&gpu->events[i], CUDA_EVENT_NO_TIMING);
	return error;
}

/* In the context that is current. */
static void unmake_pool(struct gpu *gpu)
{
	if (gpu->pinned)
		all.cuda.mem_host_unregister(gpu->memory);
	gpu->pinned = 0;
	gpu->in = gpu->out = NULL; /* they end with their context */
	memset(gpu->events, 0, sizeof(gpu->events));
}

static bool wants_context(void)
{
	int wish = anynet_net.cfg->cuda_own_context;

	if (wish != ANYNET_SWITCH_AUTO)
		return wish;
	for (int i = 0; i < anynet_net.device_count; i++)
		if (anynet_net.devices[i].link == ANYNET_LINK_IB &&
		    anynet_net.devices[i].ptr_support & (ANYNET_PTR_CUDA | ANYNET_PTR_DMABUF))
			return false;
	return true;
}

/* A context of our own shares no lock and no queue with the application's calls. */
static void choose_context(struct gpu *gpu, int device)
{
	char text[160];
	int error;

	if (gpu->context)
		return;
	gpu->context = gpu->primary;
	if (!wants_context() || !all.cuda.ctx_create || !all.cuda.ctx_destroy)
		return;
	error = all.cuda.ctx_create(&gpu->context, 0, device);
	if (!error) {
		all.cuda.ctx_pop(&gpu->context);
		return;
	}
	gpu->context = gpu->primary;
	anynet_info("GPU %d: copies are made in the application's CUDA context, without one of our "
		    "own: %s",
		    gpu->ordinal, error_text(error, text, sizeof(text)));
}

/* Does our own context reach memory of the application's? A byte is copied. If not, back to the application's. */
static int prove_context(struct gpu *gpu, const void *addr)
{
	struct call call;
	char text[160];
	int bounce;

	if (gpu->context == gpu->primary)
		return 0;
	bounce = __builtin_ctzll(atomic_load(&gpu->bounces));
	if (!gpu_copy_out(gpu, bounce, addr, 1) && !gpu_copy_wait(gpu, bounce))
		return 0;
	anynet_info(
		"GPU %d: a CUDA context of our own does not reach the application's memory (%s), "
		"copies are made in the application's",
		gpu->ordinal, gpu_why(gpu, text, sizeof(text)));
	if (!enter_context(gpu->context, 0, &call))
		unmake_pool(gpu);
	leave(gpu, &call, 0);
	if (atomic_load(&gpu->error) != CUDA_NOT_READY) /* else it may still be under way */
		all.cuda.ctx_destroy(gpu->context);
	gpu->context = gpu->primary;
	atomic_store(&gpu->unsure, 0);
	return 1;
}

static int make_in_context(struct gpu *gpu)
{
	struct call call;
	int error = enter_context(gpu->context, 0, &call);

	if (!error)
		error = make_pool(gpu);
	leave(gpu, &call, error);
	return error;
}

static int make_relaxed(struct gpu *gpu, const void *addr)
{
	int device, error = all.cuda.device_get(&device, gpu->ordinal);

	if (!error && !gpu->primary)
		error = all.cuda.primary_ctx_retain(&gpu->primary, device);
	if (error)
		return error;
	choose_context(gpu, device);
	atomic_store(&gpu->waited, (1ull << WAITED) - 1);
	atomic_store(&gpu->bounces, ~0ull << WAITED);
	error = make_in_context(gpu);
	if (!error && prove_context(gpu, addr))
		error = make_in_context(gpu);
	if (!error)
		atomic_store(&gpu->state, GPU_MADE);
	return error;
}

static int make(struct gpu *gpu, const void *addr)
{
	int mode = CUDA_CAPTURE_RELAXED, error;

	all.cuda.thread_exchange_capture_mode(&mode);
	error = make_relaxed(gpu, addr);
	all.cuda.thread_exchange_capture_mode(&mode);
	return error;
}

static int open_driver(char *why, size_t why_bytes)
{
	const char *file = anynet_net.cfg->cuda_lib;
	int ret, error;
	char text[160];

	if (all.cuda.library)
		return 0;
	ret = cuda_open(*file ? file : "libcuda.so.1", &all.cuda, why, why_bytes);
	if (ret)
		return ret;
	error = all.cuda.init(0);
	if (!error)
		return 0;
	snprintf(why, why_bytes, "cuInit: %s", error_text(error, text, sizeof(text)));
	all.cuda.library = NULL; /* stays loaded; tried again with the next memory */
	return -ENODEV;
}

static int find(const void *addr, struct gpu **out, char *why, size_t why_bytes)
{
	struct gpu *gpu;
	char text[160];
	int ordinal = -1,
	    error = all.cuda.pointer_get_attribute(&ordinal, CUDA_POINTER_ORDINAL, (uintptr_t)addr);

	if (error || ordinal < 0 || ordinal >= GPUS_MAX) {
		snprintf(why, why_bytes, "%p is no GPU memory that CUDA knows: %s", addr,
			 error ? error_text(error, text, sizeof(text)) : "no such device");
		return -EINVAL;
	}
	gpu = all.gpus[ordinal];
	if (gpu && atomic_load(&gpu->state) == GPU_MADE)
		check_context(gpu);
	if (!gpu || atomic_load(&gpu->state) == GPU_RESET) {
		struct gpu *former = gpu;

		gpu = calloc(1, sizeof(*gpu));
		if (gpu)
			gpu->former = former;
		all.gpus[ordinal] = gpu ? gpu : former;
	}
	if (!gpu) {
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	gpu->ordinal = ordinal;
	if (atomic_load(&gpu->state) == GPU_NEW) {
		error = make(gpu, addr);
		if (error) {
			snprintf(why, why_bytes, "GPU %d: no memory to copy through: %s", ordinal,
				 error_text(error, text, sizeof(text)));
			return -ENOMEM;
		}
	}
	*out = gpu;
	return 0;
}

int gpu_of(const void *addr, struct gpu **gpu, char *why, size_t why_bytes)
{
	int ret;

	pthread_mutex_lock(&all.lock);
	ret = open_driver(why, why_bytes);
	if (!ret)
		ret = find(addr, gpu, why, why_bytes);
	pthread_mutex_unlock(&all.lock);
	return ret;
}

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

#define LINE_BYTES (uint64_t)128 /* of LL128, whose flag … */
#define LINE_FLAG  120           /* … begins here */

/* A call that has to do with a copy of the bounce has ended. */
static int leave_copy(struct gpu *gpu, struct call *call, int error, int bounce)
{
	if (anynet_unlikely(error))
		give_bit(&gpu->unsure, bounce);
	return leave(gpu, call, error);
}

int gpu_copy_out(struct gpu *gpu, int bounce, const void *from, size_t bytes)
{
	struct call call;
	int error = enter(gpu, &call);

	if (!error)
		error = all.cuda.memcpy_to_host(gpu_bounce_memory(gpu, bounce), (uintptr_t)from,
						bytes, gpu->out);
	if (!error)
		error = all.cuda.event_record(gpu->events[bounce], gpu->out);
	return leave_copy(gpu, &call, error, bounce);
}

/* [from, end) of every line of LINE_BYTES within `bytes` at `to`: whole lines in one copy, what there is of the first
 * and of the last each in one. */
static int copy_of_lines(struct gpu *gpu, uint64_t to, const uint8_t *host, size_t bytes,
			 size_t from, size_t end)
{
	uint64_t first = anynet_min(to + bytes, (to + LINE_BYTES - 1) & ~(LINE_BYTES - 1));
	uint64_t last = anynet_max(first, (to + bytes) & ~(LINE_BYTES - 1));
	const struct cuda_copy_2d rows = {
		.from_type = CUDA_MEMORY_HOST,
		.from_host = host + (first - to) + from,
		.from_pitch = LINE_BYTES,
		.to_type = CUDA_MEMORY_DEVICE,
		.to_device = first + from,
		.to_pitch = LINE_BYTES,
		.width = end - from,
		.rows = (last - first) / LINE_BYTES,
	};
	const uint64_t ends[2][2] = { { to, first }, { last, to + bytes } };
	int error = 0;

	if (rows.rows)
		error = all.cuda.memcpy_2d(&rows, gpu->in);
	for (int i = 0; i < 2 && !error; i++) {
		uint64_t line = ends[i][0] & ~(LINE_BYTES - 1);
		uint64_t begin = anynet_max(ends[i][0], line + from);
		uint64_t stop = anynet_min(ends[i][1], line + end);

		if (begin < stop)
			error = all.cuda.memcpy_to_device(begin, host + (begin - to), stop - begin,
							  gpu->in);
	}
	return error;
}

static int copy_to_device(struct gpu *gpu, void *to, const void *from, size_t bytes, bool polled)
{
	int error;

	if (anynet_likely(!polled))
		return all.cuda.memcpy_to_device((uintptr_t)to, from, bytes, gpu->in);
	error = copy_of_lines(gpu, (uintptr_t)to, from, bytes, 0, LINE_FLAG);
	return error ? error
		     : copy_of_lines(gpu, (uintptr_t)to, from, bytes, LINE_FLAG, LINE_BYTES);
}

int gpu_copy_in(struct gpu *gpu, int bounce, void *to, size_t bytes, bool polled)
{
	struct call call;
	int error = enter(gpu, &call);

	if (!error)
		error = copy_to_device(gpu, to, gpu_bounce_memory(gpu, bounce), bytes, polled);
	if (!error)
		error = all.cuda.event_record(gpu->events[bounce], gpu->in);
	return leave_copy(gpu, &call, error, bounce);
}

int gpu_copy_done(struct gpu *gpu, int bounce)
{
	struct call call;
	int error = enter(gpu, &call);

	if (!error)
		error = all.cuda.event_query(gpu->events[bounce]);
	if (error == CUDA_NOT_READY) {
		leave(gpu, &call, 0);
		return 0;
	}
	return leave_copy(gpu, &call, error, bounce) ? -EIO : 1;
}

int gpu_copy_wait(struct gpu *gpu, int bounce)
{
	uint64_t until = net_now_ms() + WAIT_MS;
	int done;

	while (!(done = gpu_copy_done(gpu, bounce))) {
		if (net_now_ms() >= until) {
			atomic_store(&gpu->error, CUDA_NOT_READY);
			give_bit(&gpu->unsure, bounce);
			return -EIO;
		}
		sched_yield();
	}
	return done < 0 ? done : 0;
}

/* Is all done that was asked of the stream? */
static bool is_through(struct gpu *gpu, int bounce, void *stream)
{
	struct call call;
	int error = enter(gpu, &call);

	if (!error)
		error = all.cuda.event_record(gpu->events[bounce], stream);
	return !leave(gpu, &call, error) && !gpu_copy_wait(gpu, bounce);
}

/* The bounce is to be another's: nothing may be written into it, or read from it, any more. */
static void settle(struct gpu *gpu, int bounce)
{
	enum gpu_state made = GPU_MADE;
	int waited = CUDA_NOT_READY;
	uint64_t until;

	if (anynet_likely(!(atomic_load(&gpu->unsure) & 1ull << bounce)))
		return;
	until = net_now_ms() + WAIT_MS;
	for (int tries = 0; tries < SETTLES && net_now_ms() < until; tries++) {
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
	give_bit(&gpu->bounces, bounce);
}

static void give_waited(struct gpu *gpu, int bounce)
{
	settle(gpu, bounce);
	give_bit(&gpu->waited, bounce);
}

static int take_waited(struct gpu *gpu)
{
	int bounce;

	while ((bounce = take_bit(&gpu->waited)) < 0)
		sched_yield(); /* its holder waits for the copy engine only */
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
	give_waited(gpu, bounce);
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
	give_waited(gpu, bounce);
	return ret;
}

int gpu_flush(struct gpu *gpu)
{
	struct call call;
	int error = enter(gpu, &call);

	if (!error)
		error = all.cuda.flush_writes
				? all.cuda.flush_writes(CUDA_FLUSH_CONTEXT, CUDA_FLUSH_TO_ALL)
				: CUDA_NOT_SUPPORTED;
	return leave(gpu, &call, error) && error == CUDA_NOT_SUPPORTED ? -EOPNOTSUPP
	       : error                                                 ? -EIO
								       : 0;
}

int gpu_ordinal(const struct gpu *gpu)
{
	return gpu->ordinal;
}

/* In the primary context, as the application's is, with room to begin it on a page. */
void *gpu_scratch(struct gpu *gpu)
{
	size_t page = pinned_round(1);
	struct call call;
	int error = 0;

	if (!gpu->scratch) {
		error = enter_context(gpu->primary, check_context(gpu), &call);
		if (!error)
			error = all.cuda.mem_alloc(&gpu->scratch, GPU_SCRATCH_BYTES + page);
		leave(gpu, &call, error);
	}
	return error ? NULL
		     : (void *)(uintptr_t)((gpu->scratch + page - 1) & ~(uint64_t)(page - 1));
}

/* By PCIe where the driver knows that, which is what NCCL asks for where GPU and NIC are behind one switch
 * (NCCL src/graph/paths.cc:540@v2.30.7), and tries first for GIN (src/gin/gin_host_proxy.cc:98). */
int gpu_dmabuf_fd(struct gpu *gpu, const void *addr, size_t bytes)
{
	struct call call;
	int fd = -1, error;

	if (!all.cuda.mem_get_handle)
		return -EOPNOTSUPP;
	error = enter_context(gpu->primary, check_context(gpu), &call);
	if (!error && all.cuda.mem_get_handle(&fd, (uintptr_t)addr, bytes, CUDA_RANGE_DMABUF,
					      CUDA_RANGE_BY_PCIE))
		error = all.cuda.mem_get_handle(&fd, (uintptr_t)addr, bytes, CUDA_RANGE_DMABUF, 0);
	return leave(gpu, &call, error) ? -EIO : fd;
}

struct memory_id memory_id_unique(void)
{
	static _Atomic uint64_t serial;
	uint64_t id = 1ull << 63 | atomic_fetch_add(&serial, 1); /* CUDA counts from 1 */

	return (struct memory_id){ id, id };
}

struct memory_id gpu_memory_id(const void *addr, size_t bytes)
{
	uintptr_t first = (uintptr_t)addr, last = first + (bytes ? bytes - 1 : 0);
	struct memory_id id;

	if (all.cuda.pointer_get_attribute(&id.first, CUDA_POINTER_BUFFER, first) ||
	    all.cuda.pointer_get_attribute(&id.last, CUDA_POINTER_BUFFER, last))
		return memory_id_unique();
	return id;
}
