/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LL and LL128 (net-api.md §3.5): the GPU polls a receive buffer while it is written. Here a thread plays the GPU: the
 * buffer never contains anything but final data, which appears in ascending order, and nothing behind the message
 * changes. Two effects are not under the plugin's control, and occur with NCCL's built-in Socket as well. A TCP segment
 * may end inside a word: its first bytes then appear before the others. And the kernel's copy may make whole cache
 * lines visible out of order (x86: rep movsb), so order is checked within lines only.
 */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 64
#define LINE_WORDS (LINE_BYTES / 8)
#define BLANK_WORD 0xeeeeeeeeeeeeeeeeu
#define SLOTS      4
#define ROUNDS     (TEST_SANITIZED ? 5 : 20)

/* The watcher races with the kernel and the plugin on purpose. */
#ifdef __SANITIZE_THREAD__
#define LOOKS_ON __attribute__((no_sanitize("thread"), noinline))
#elif defined(__clang__)
#define LOOKS_ON __attribute__((no_sanitize("thread"), noinline))
#else
#define LOOKS_ON __attribute__((noinline))
#endif

struct watched {
	uint64_t *words;    /* posted */
	uint64_t *expected; /* the final contents; blank behind the message */
	size_t line_count;
};

struct watch {
	struct watched slots[SLOTS];
	size_t slot_count;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool active, over;   /* task of the watcher */
	bool looking;        /* the watcher has released the lock to look */
	unsigned long looks; /* at all slots */
	char fault[200];     /* owned by the watcher while it is active */
};

/* Number of bytes of a word that have arrived: the first n are final, the others blank. -1 = neither. */
static int arrived_bytes(uint64_t seen, uint64_t expected)
{
	if (seen == expected)
		return 8;
	for (int n = 0; n < 8; n++) {
		uint64_t mask = n ? UINT64_MAX >> (64 - 8 * n) : 0;
		if (seen == ((expected & mask) | (BLANK_WORD & ~mask)))
			return n;
	}
	return -1;
}

/* From the last word to the first: if one has arrived, those before it must have arrived. */
LOOKS_ON static void look_at_line(struct watch *watch, const struct watched *slot, size_t line)
{
	bool later_there = false;

	for (size_t i = LINE_WORDS; i-- > 0;) {
		size_t index = line * LINE_WORDS + i;
		uint64_t seen = __atomic_load_n(&slot->words[index], __ATOMIC_ACQUIRE);
		uint64_t expected = slot->expected[index];
		int arrived = arrived_bytes(seen, expected);
		const char *fault = arrived < 0 ? "held something else for a moment"
				    : later_there && arrived < 8
					    ? "came after a later one of its line"
					    : NULL;

		if (fault && !watch->fault[0])
			snprintf(watch->fault, sizeof(watch->fault), "word %zu of %zu %s: %016llx",
				 index, slot->line_count * LINE_WORDS, fault,
				 (unsigned long long)seen);
		later_there = later_there || (arrived > 0 && expected != BLANK_WORD);
	}
}

static void look_at_all(struct watch *watch)
{
	for (size_t i = 0; i < watch->slot_count; i++)
		for (size_t line = 0; line < watch->slots[i].line_count; line++)
			look_at_line(watch, &watch->slots[i], line);
}

static void *look_on(void *arg)
{
	struct watch *watch = arg;

	pthread_mutex_lock(&watch->lock);
	while (!watch->over) {
		if (!watch->active) {
			pthread_cond_wait(&watch->changed, &watch->lock);
			continue;
		}
		watch->looking = true;
		pthread_mutex_unlock(&watch->lock);
		look_at_all(watch);
		yield_at_times();
		pthread_mutex_lock(&watch->lock);
		watch->looking = false;
		watch->looks++;
		pthread_cond_broadcast(&watch->changed);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

static void watch_open(struct watch *watch, pthread_t *thread)
{
	check_ok(pthread_mutex_init(&watch->lock, NULL));
	check_ok(pthread_cond_init(&watch->changed, NULL));
	check_ok(pthread_create(thread, NULL, look_on, watch));
}

static void watch_close(struct watch *watch, pthread_t thread)
{
	pthread_mutex_lock(&watch->lock);
	watch->over = true;
	pthread_cond_broadcast(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
	check_ok(pthread_join(thread, NULL));
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->lock);
}

/* The slots are blank, and their final contents are known. */
static void watch_begin(struct watch *watch)
{
	pthread_mutex_lock(&watch->lock);
	watch->active = true;
	pthread_cond_broadcast(&watch->changed);
	pthread_mutex_unlock(&watch->lock);
}

/* All has arrived: one more complete look, then the watcher leaves the slots alone. */
static void watch_end(struct watch *watch)
{
	pthread_mutex_lock(&watch->lock);
	for (unsigned long until = watch->looks + 2; watch->looks < until;)
		pthread_cond_wait(&watch->changed, &watch->lock);
	watch->active = false;
	while (watch->looking)
		pthread_cond_wait(&watch->changed, &watch->lock);
	pthread_mutex_unlock(&watch->lock);
	check_that(!watch->fault[0], "%s", watch->fault);
}

static void exchange(struct test_net *net, struct link *link, struct buffer *from,
		     struct buffer *to, size_t bytes, bool send_first)
{
	struct transfer sends[SLOTS], recvs[SLOTS];

	for (size_t i = 0; i < SLOTS; i++) {
		sends[i] = transfer_of(from[i].data, bytes, 0, NULL);
		recvs[i] = transfer_of(to[i].data, to[i].bytes, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link->recv, .transfers = recvs, .count = SLOTS },
		{ .comm = link->send, .is_send = true, .transfers = sends, .count = SLOTS },
	};
	for (int turn = 0; send_first && turn < 3; turn++)
		flow_step(net, &flows[1]);
	flows_run(net, flows, 2);
}

static void run_watched(struct test_net *net, size_t bytes)
{
	static struct watch watch;
	struct buffer from[SLOTS], to[SLOTS], expected[SLOTS];
	size_t room = (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES + 2 * LINE_BYTES;
	struct link link;
	pthread_t thread;

	memset(&watch, 0, sizeof(watch));
	watch.slot_count = SLOTS;
	link_open(net, &link);
	for (size_t i = 0; i < SLOTS; i++) {
		buffer_alloc(&from[i], bytes);
		buffer_alloc(&to[i], room);
		buffer_alloc(&expected[i], room);
		watch.slots[i].words = (uint64_t *)(void *)to[i].data;
		watch.slots[i].expected = (uint64_t *)(void *)expected[i].data;
		watch.slots[i].line_count = room / LINE_BYTES;
	}
	watch_open(&watch, &thread);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < SLOTS; i++) {
			pattern_fill(from[i].data, bytes, round * SLOTS + i);
			memcpy(expected[i].data, from[i].data, bytes);
			buffer_blank(&to[i]);
		}
		watch_begin(&watch);
		exchange(net, &link, from, to, bytes, round % 2);
		watch_end(&watch);
		for (size_t i = 0; i < SLOTS; i++)
			check(!memcmp(to[i].data, expected[i].data, room));
	}
	watch_close(&watch, thread);
	for (size_t i = 0; i < SLOTS; i++) {
		buffer_free(&from[i]);
		buffer_free(&to[i]);
		buffer_free(&expected[i]);
	}
	link_close(net, &link);
}

/* Whole words, as LL and LL128 send them. */
static void lines_fill_in_ascending_order(struct test_net *net)
{
	const size_t sizes[] = { 8, 128, 1920, 8320, 65536, 131072 + 640 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		run_watched(net, sizes[i]);
}

/* A message that came before its receive was posted, because the posted one has another tag. */
static void lines_of_early_messages_fill_in_order(struct test_net *net)
{
	static struct watch watch;
	enum {
		BYTES = 1920,
		ROOM = 2048
	};
	struct buffer from, to, other, expected;
	struct link link;
	pthread_t thread;

	if (net->props.max_recvs < 2)
		check_skip("the net offers no groups");
	memset(&watch, 0, sizeof(watch));
	link_open(net, &link);
	buffer_alloc(&from, BYTES);
	buffer_alloc(&to, ROOM);
	buffer_alloc(&other, BYTES);
	buffer_alloc(&expected, ROOM);
	watch.slots[0].words = (uint64_t *)(void *)to.data;
	watch.slots[0].expected = (uint64_t *)(void *)expected.data;
	watch.slots[0].line_count = ROOM / LINE_BYTES;
	watch.slot_count = 1;
	watch_open(&watch, &thread);
	for (uint64_t round = 0; round < ROUNDS * 4; round++) {
		struct transfer sends[2] = { transfer_of(from.data, BYTES, 1, NULL),
					     transfer_of(from.data, BYTES, 2, NULL) };
		struct transfer second = transfer_of(other.data, BYTES, 2, NULL);
		struct transfer first = transfer_of(to.data, ROOM, 1, NULL);
		struct flow flows[] = {
			{ .comm = link.send, .is_send = true, .transfers = sends, .count = 2 },
			{ .comm = link.recv, .transfers = &second, .count = 1 },
		};

		pattern_fill(from.data, BYTES, round);
		memcpy(expected.data, from.data, BYTES);
		buffer_blank(&to);
		watch_begin(&watch);
		struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the second message");
		while (!flow_step(net, &flows[1])) {
			flow_step(net, &flows[0]);
			deadline_turn(&deadline);
		}
		flows[1] = (struct flow){ .comm = link.recv, .transfers = &first, .count = 1 };
		flows_run(net, flows, 2);
		watch_end(&watch);
		check(!memcmp(to.data, expected.data, ROOM));
	}
	watch_close(&watch, thread);
	buffer_free(&from);
	buffer_free(&to);
	buffer_free(&other);
	buffer_free(&expected);
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "lines_fill_in_ascending_order", lines_fill_in_ascending_order },
		{ .name = "lines_fill_in_ascending_order_on_4_streams",
		  lines_fill_in_ascending_order,
		  .settings = { "ANYNET_TCP_CONNECTIONS=4", "ANYNET_TCP_CHUNK=4k" } },
		{ .name = "lines_fill_in_ascending_order_with_a_thread",
		  lines_fill_in_ascending_order,
		  .settings = { "ANYNET_IO_THREADS=1" } },
		{ .name = "lines_of_early_messages_fill_in_order",
		  lines_of_early_messages_fill_in_order,
		  .settings = { "ANYNET_MAX_RECVS=8" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
