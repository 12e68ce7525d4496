/* SPDX-License-Identifier: Apache-2.0 */
/* isend, irecv, test and I/O threads allocate no memory. This program's malloc functions replace those of the C
 * library, for the plugin too, and count. The background thread may allocate. */
#include <support/buffer.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/proc.h>

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MESSAGES    2000
#define THREADS_MAX 64
#define IO_THREAD   "anynet-io-" /* name prefix of the plugin's I/O threads */

static atomic_bool counting;
static atomic_uint taken; /* calls while counting, by the threads that must make none */

static bool is_io_thread(const char *name)
{
	return !strncmp(name, IO_THREAD, strlen(IO_THREAD));
}

#if !TEST_SANITIZED
/* glibc's own entries, for programs that replace the public ones. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);
extern void __libc_free(void *memory);

/* Used by every library of the process. */
#define IN_FRONT __attribute__((visibility("default")))

/* The thread that calls the plugin is the first of this process. */
static bool is_counted(void)
{
	static _Thread_local enum {
		UNKNOWN,
		COUNTED,
		LEFT_OUT
	} role;
	char name[16];

	if (role == UNKNOWN) {
		prctl(PR_GET_NAME, name);
		role = getpid() == gettid() || is_io_thread(name) ? COUNTED : LEFT_OUT;
	}
	return role == COUNTED;
}

static void count_one(void)
{
	if (atomic_load_explicit(&counting, memory_order_relaxed) && is_counted())
		atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
}

IN_FRONT void *malloc(size_t bytes)
{
	count_one();
	return __libc_malloc(bytes);
}

IN_FRONT void *calloc(size_t count, size_t bytes)
{
	count_one();
	return __libc_calloc(count, bytes);
}

IN_FRONT void *realloc(void *old, size_t bytes)
{
	count_one();
	return __libc_realloc(old, bytes);
}

IN_FRONT void *aligned_alloc(size_t align, size_t bytes)
{
	count_one();
	return __libc_memalign(align, bytes);
}

IN_FRONT int posix_memalign(void **memory, size_t align, size_t bytes)
{
	count_one();
	*memory = __libc_memalign(align, bytes);
	return *memory ? 0 : ENOMEM;
}

IN_FRONT void free(void *memory)
{
	count_one();
	__libc_free(memory);
}

IN_FRONT void *mmap(void *address, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	count_one();
	return (void *)syscall(SYS_mmap, address, bytes, prot, flags, fd, offset);
}
#endif

static struct transfer sends[MESSAGES], recvs[MESSAGES];

/* Checks the counters: otherwise the test below could not fail. */
static void counting_works(struct test_net *net)
{
	(void)net;
	if (TEST_SANITIZED)
		check_skip("the sanitizer's malloc is in the way");
	atomic_store(&counting, true);
	char *volatile memory = strdup("counted");
	atomic_store(&counting, false);
	check(atomic_load(&taken) > 0);
	free(memory);
}

static size_t io_threads(void)
{
	int threads[THREADS_MAX];
	size_t count = 0, total = proc_threads(threads, THREADS_MAX);

	for (size_t i = 0; i < total; i++) {
		char path[64], name[16] = "";
		snprintf(path, sizeof(path), "/proc/self/task/%d/comm", threads[i]);
		FILE *file = fopen(path, "re");
		if (!file) /* the thread has ended */
			continue;
		count += fgets(name, sizeof(name), file) && is_io_thread(name);
		fclose(file);
	}
	return count;
}

static void check_no_malloc(struct test_net *net, const size_t *sizes, size_t size_count)
{
	enum {
		SLOTS = FLOW_WINDOW_NCCL
	};
	struct buffer from[SLOTS], to[SLOTS];
	struct link link;
	size_t bytes = 0;

	for (size_t i = 0; i < size_count; i++)
		bytes = sizes[i] > bytes ? sizes[i] : bytes;
	link_open(net, &link);
	check_int(io_threads(), getenv("ANYNET_IO_THREADS") ? 1 : 0);
	for (size_t i = 0; i < SLOTS; i++) {
		buffer_alloc(&from[i], bytes);
		buffer_alloc(&to[i], bytes);
	}
	for (size_t i = 0; i < MESSAGES; i++) {
		size_t size = sizes[i % size_count];
		sends[i] = transfer_of(from[i % SLOTS].data, size, 0, NULL);
		recvs[i] = transfer_of(to[i % SLOTS].data, size, 0, NULL);
	}
	struct flow flows[] = {
		{ .comm = link.send, .is_send = true, .transfers = sends, .count = MESSAGES },
		{ .comm = link.recv, .transfers = recvs, .count = MESSAGES },
	};
	atomic_store(&taken, 0);
	atomic_store(&counting, true);
	flows_run(net, flows, 2);
	atomic_store(&counting, false);
	check_that(!atomic_load(&taken), "%u calls for memory in %d messages", atomic_load(&taken),
		   MESSAGES);
	for (size_t i = 0; i < SLOTS; i++) {
		buffer_free(&from[i]);
		buffer_free(&to[i]);
	}
	link_close(net, &link);
}

static void messages_take_no_memory(struct test_net *net)
{
	const size_t sizes[] = { 0, 8, 129, 4096, 8193, 70000 };

	if (TEST_SANITIZED)
		check_skip("the sanitizer's malloc is in the way");
	check_no_malloc(net, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "counting_works", counting_works },
		{ .name = "messages_take_no_memory", messages_take_no_memory },
		{ .name = "messages_take_no_memory_on_4_streams",
		  messages_take_no_memory,
		  .settings = { "ANYNET_TCP_CONNECTIONS=4" } },
		{ .name = "messages_take_no_memory_with_a_thread",
		  messages_take_no_memory,
		  .settings = { "ANYNET_IO_THREADS=1" } },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
