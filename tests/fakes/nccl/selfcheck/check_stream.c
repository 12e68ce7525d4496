/* SPDX-License-Identifier: Apache-2.0 */
/* Order on streams and between them, concurrent blocks, events. */
#include "rig.h"

#include <sched.h>
#include <string.h>

#define BLOCKS 24

/* No block ends before all have started; each writes its mark. */
static void kernel_meet(struct softgpu_args args)
{
	struct work work = work_of(&args);

	work.to[softgpu_block()] += 1 + (int)softgpu_block();
	atomic_fetch_add(work.count, 1);
	while (atomic_load(work.count) < work.wanted)
		sched_yield();
}

static void count_up(void *data)
{
	atomic_fetch_add((atomic_int *)data, 1);
}

static void streams_keep_their_order_and_wait_for_events(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), *z = ints_new();
	cudaEvent_t a_done = event_new(), b_done = event_new();
	atomic_int gate = 0;

	for (int round = 0; round < 50; round++) {
		atomic_store(&gate, 0);
		check_ok(cudaMemsetAsync(x, 0, INTS * sizeof(int), a));
		check_ok(launch(a, kernel_add, 1,
				&(struct work){ .gate = &gate, .from = x, .to = y }));
		check_ok(launch(a, kernel_add, 1, &(struct work){ .from = y, .to = x }));
		check_ok(cudaEventRecord(a_done, a));
		check_ok(cudaStreamWaitEvent(b, a_done, 0));
		check_ok(cudaMemcpyAsync(z, x, INTS * sizeof(int), cudaMemcpyDeviceToDevice, b));
		check_ok(launch(b, kernel_add, 1, &(struct work){ .from = z, .to = y }));
		check_ok(cudaEventRecord(b_done, b));
		check_ok(cudaStreamWaitEvent(a, b_done, 0));
		check_ok(cudaMemcpyAsync(x, y, INTS * sizeof(int), cudaMemcpyDefault, a));
		check_int(cudaStreamQuery(a), cudaErrorNotReady);
		check_int(cudaStreamQuery(b), cudaErrorNotReady);
		last_error_is(cudaErrorNotReady);
		atomic_store(&gate, 1);
		check_ok(cudaStreamSynchronize(a));
		check_ok(cudaStreamQuery(b));
		ints_check(x, 3);
		ints_check(z, 2);
	}
}

/* Two launches whose blocks wait for those of the other: twice the blocks, and no thread is free. */
static void blocks_run_at_the_same_time(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	int *x = ints_new(), *y = ints_new(), ints[BLOCKS];
	atomic_int count = 0;

	for (int round = 1; round <= 50; round++) {
		struct work work = { .count = &count, .wanted = round * 2 * BLOCKS, .to = x };

		check_ok(launch(a, kernel_meet, BLOCKS, &work));
		work.to = y; /* the launch has copied its arguments */
		check_ok(launch(b, kernel_meet, BLOCKS, &work));
		memset(&work, 0, sizeof(work));
		check_ok(cudaDeviceSynchronize());
		check_int(atomic_load(&count), round * 2 * BLOCKS);
		for (int *device = x; device; device = device == x ? y : NULL) {
			check_ok(cudaMemcpy(ints, device, sizeof(ints), cudaMemcpyDeviceToHost));
			for (int i = 0; i < BLOCKS; i++)
				check_int(ints[i], round * (1 + i));
		}
	}
}

static void events_stand_for_their_last_record(void)
{
	cudaStream_t a = stream_new(cudaStreamNonBlocking), b = stream_new(cudaStreamNonBlocking);
	atomic_int gates[3] = { 0 }, count = 0;
	cudaEvent_t event = event_new();

	check_ok(cudaEventQuery(event)); /* never recorded */
	check_ok(cudaEventSynchronize(event));
	check_ok(cudaStreamWaitEvent(a, event, 0));
	check_ok(cudaEventRecord(event, a)); /* of nothing */
	check_ok(cudaEventQuery(event));

	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[0] }));
	check_ok(cudaEventRecord(event, a));
	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[1] }));
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	check_ok(cudaStreamWaitEvent(b, event, 0)); /* for the first gate, in any case */
	check_ok(cudaLaunchHostFunc(b, count_up, &count));
	check_ok(cudaEventRecord(event, a)); /* the second gate */
	atomic_store(&gates[0], 1);
	check_ok(cudaStreamSynchronize(b));
	check_int(atomic_load(&count), 1);
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	atomic_store(&gates[1], 1);
	check_ok(cudaEventSynchronize(event));
	check_ok(cudaEventQuery(event));

	check_ok(launch(a, kernel_gate, 1, &(struct work){ .gate = &gates[2] }));
	check_ok(cudaEventRecord(event, a));
	check_ok(cudaStreamWaitEvent(b, event, 0));
	check_ok(cudaLaunchHostFunc(b, count_up, &count));
	check_ok(cudaEventDestroy(event)); /* a waiter keeps waiting */
	check_ok(cudaStreamDestroy(a));
	check_int(cudaStreamQuery(b), cudaErrorNotReady);
	atomic_store(&gates[2], 1);
	check_ok(cudaStreamSynchronize(b));
	check_int(atomic_load(&count), 2);
	check_int(cudaEventQuery(event), cudaErrorInvalidResourceHandle);
}

/* The time advances between two records, also while a kernel runs; a record that was not reached has none. */
static void events_tell_the_time_between_them(void)
{
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	cudaEvent_t from, to, untimed = event_new();
	atomic_int gate = 0;
	float ms = -1;

	check_ok(cudaEventCreate(&from));
	check_ok(cudaEventCreate(&to));
	check_int(cudaEventElapsedTime(&ms, from, to), cudaErrorInvalidResourceHandle);
	check_ok(cudaEventRecord(from, stream));
	check_ok(launch(stream, kernel_gate, 1, &(struct work){ .gate = &gate }));
	check_ok(cudaEventRecord(to, stream));
	check_int(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
	atomic_store(&gate, 1);
	check_ok(cudaEventSynchronize(to));
	check_ok(cudaEventElapsedTime(&ms, from, to));
	check(ms > 0);
	check_ok(cudaEventRecord(untimed, stream));
	check_ok(cudaDeviceReset());
	check_int(cudaEventElapsedTime(&ms, from, untimed), cudaErrorInvalidResourceHandle);
}

static void null_stream_is_ordered_with_blocking_ones(void)
{
	cudaStream_t blocking = stream_new(cudaStreamDefault),
		     other = stream_new(cudaStreamNonBlocking);
	unsigned long long null_id, legacy_id, id;
	int *x = ints_new(), *y = ints_new();
	atomic_int gates[3] = { 0 };
	cudaEvent_t event = event_new();

	check_ok(launch(other, kernel_gate, 1, &(struct work){ .gate = &gates[2] }));
	check_ok(cudaStreamSynchronize(NULL)); /* not its stream */
	check_ok(launch(blocking, kernel_add, 1,
			&(struct work){ .gate = &gates[0], .from = x, .to = x }));
	check_int(cudaStreamQuery(NULL), cudaErrorNotReady);
	check_ok(cudaEventRecord(event, NULL));
	check_int(cudaEventQuery(event), cudaErrorNotReady);
	check_ok(launch(NULL, kernel_add, 1,
			&(struct work){ .gate = &gates[1], .from = x, .to = y }));
	check_ok(launch(blocking, kernel_add, 1, &(struct work){ .from = y, .to = x }));
	atomic_store(&gates[0], 1);
	check_ok(cudaEventSynchronize(event));
	check_int(cudaStreamQuery(blocking), cudaErrorNotReady);
	atomic_store(&gates[1], 1);
	ints_check(x, 3); /* by a copy that waits for the blocking stream */
	ints_check(y, 2);
	check_int(cudaStreamQuery(other), cudaErrorNotReady);
	atomic_store(&gates[2], 1);
	check_ok(cudaDeviceSynchronize());
	check_ok(cudaStreamQuery(other));

	check_ok(cudaStreamGetId(NULL, &null_id));
	check_ok(cudaStreamGetId(cudaStreamLegacy, &legacy_id));
	check_ok(cudaStreamGetId(other, &id));
	check(null_id == legacy_id && id != null_id);
}

static void destroyed_stream_finishes_its_work(void)
{
	cudaStream_t stream = stream_new(cudaStreamNonBlocking);
	atomic_int gate = 0, count = 0;

	check_ok(launch(stream, kernel_gate, 4, &(struct work){ .gate = &gate }));
	check_ok(cudaLaunchHostFunc(stream, count_up, &count));
	check_ok(cudaStreamDestroy(stream));
	check_int(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
	check_int(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
	check_int(atomic_load(&count), 0);
	atomic_store(&gate, 1);
	check_ok(cudaDeviceSynchronize());
	check_int(atomic_load(&count), 1);
}

/* The check's process has to exit normally and soon. */
static void process_ends_with_work_under_way(void)
{
	static atomic_int gate;

	for (int i = 0; i < 4; i++)
		check_ok(
			launch(stream_new(i % 2), kernel_gate, 8, &(struct work){ .gate = &gate }));
	check_int(cudaStreamQuery(NULL), cudaErrorNotReady);
}

const struct selfcheck stream_checks[] = {
	{ CHECK(streams_keep_their_order_and_wait_for_events) },
	{ CHECK(blocks_run_at_the_same_time) },
	{ CHECK(events_stand_for_their_last_record) },
	{ CHECK(events_tell_the_time_between_them) },
	{ CHECK(null_stream_is_ordered_with_blocking_ones) },
	{ CHECK(destroyed_stream_finishes_its_work) },
	{ CHECK(process_ends_with_work_under_way) },
	{ 0 },
};
