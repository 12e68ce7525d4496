/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics file: how it is written, and which process holds and removes it. */
#include "stats_pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/service/stats.h"
#include "transports/service/stats_page.h"
#include "transports/session/registry.h"
#include "unit/own_page.h"

static void test_without_a_page_nothing_happens(void **state)
{
	static const char *const none[] = { "", "off", "/nowhere/at/all", "/dev/null" };

	(void)state;
	open_pair(1);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		strcpy(local_cfg.stats, none[i]);
		stats_begin();
		stats_look();
		assert_null(own_page_file());
		stats_end();
		stats_end();
	}
	memset(local_cfg.stats, 'x', sizeof(local_cfg.stats) - 1);
	*local_cfg.stats = '/';
	stats_begin();
	stats_look();
	close_pair();
}

/* Limits the size of files, as on a full disk. Returns the old limit. */
static struct rlimit limit_files(rlim_t bytes)
{
	struct rlimit old, small;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = bytes;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	return old;
}

static void unlimit_files(const struct rlimit *old)
{
	assert_int_equal(setrlimit(RLIMIT_FSIZE, old), 0);
	signal(SIGXFSZ, SIG_DFL);
}

static void test_a_record_is_written_whole_or_it_is_an_error(void **state)
{
	struct stats_page page = { .fd = -1 };
	uint64_t record[8] = { 0 };
	struct rlimit old;

	(void)state;
	assert_int_equal(stats_page_open(&page, dir), 0);
	assert_int_equal(stats_page_put(&page, 100, record, sizeof(record)), 0);
	old = limit_files(100 + sizeof(record) - 1);
	assert_int_equal(stats_page_put(&page, 100, record, sizeof(record)), -ENOSPC);
	assert_int_equal(stats_page_put(&page, 200, record, sizeof(record)), -EFBIG);
	unlimit_files(&old);
	stats_page_close(&page);
}

static void test_a_full_disk_ends_the_page_only(void **state)
{
	struct rlimit old;

	(void)state;
	open_pair(1);
	stats_begin();
	assert_non_null(own_page_file());
	old = limit_files(ANYNET_STATS_COMMS_AT + 100);
	stats_look();
	unlimit_files(&old);
	assert_null(own_page_file());
	stats_look();
	assert_null(own_page_file());
	pair_send(&pair, pair_out, 100);
	close_pair();
}

/* --- a file system that hangs --- */

static atomic_bool disk_hangs, write_hangs;

ssize_t __real_pwrite(int fd, const void *data, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at);

/* Replaces the C library's function by the linker. */
ssize_t __wrap_pwrite(int fd, const void *data, size_t bytes, off_t at)
{
	while (atomic_load(&disk_hangs)) {
		atomic_store(&write_hangs, true);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return __real_pwrite(fd, data, bytes, at);
}

/* Comms are created and closed meanwhile, and the process may exit. (If they block, the test's alarm ends it.) */
static void test_a_hanging_file_system_delays_no_caller(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a write that hangs");
	struct session session = { .slot = -1 };
	struct anynet_comm other = { .session = &session };

	(void)state;
	open_pair(1);
	atomic_store(&disk_hangs, true);
	stats_want(true);
	while (!atomic_load(&write_hangs))
		deadline_turn(&deadline);
	alarm(TEST_PATIENCE_MS / 1000);
	assert_int_equal(registry_add(&other), 0);
	registry_remove(&other);
	stats_want(false);
	stats_want(true);
	assert_false(stats_leave(10));
	alarm(0);
	atomic_store(&disk_hangs, false);
	assert_true(stats_leave(TEST_PATIENCE_MS));
	assert_null(own_page_file());
	close_pair();
}

/* --- the thread, where there is nothing to write --- */

static atomic_uint threads, waits, sleeps;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	atomic_fetch_add(&threads, 1);
	return __real_pthread_create(thread, attr, run, arg);
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
	atomic_fetch_add(&waits, 1);
	return __real_pthread_cond_wait(cond, lock);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	atomic_fetch_add(&sleeps, 1);
	return __real_pthread_cond_timedwait(cond, lock, until);
}

static void test_a_thread_that_is_not_wanted_does_not_begin(void **state)
{
	static const char *const none[] = { "", "off" };
	unsigned before = atomic_load(&threads);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
		strcpy(local_cfg.stats, none[i]);
		stats_want(true);
		assert_true(stats_leave(TEST_PATIENCE_MS));
	}
	assert_int_equal(atomic_load(&threads), before);
}

static void test_a_thread_without_a_page_sleeps(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the thread to wait");
	unsigned before = atomic_load(&sleeps);

	(void)state;
	atomic_store(&waits, 0);
	strcpy(local_cfg.stats, "/nowhere/at/all");
	stats_want(true);
	while (!atomic_load(&waits) && atomic_load(&sleeps) == before)
		deadline_turn(&deadline);
	assert_int_equal(atomic_load(&sleeps), before);
	assert_true(stats_leave(TEST_PATIENCE_MS));
}

/* --- other processes --- */

static int exit_code(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* In a child: how many files does a reader find? */
static int pages_seen(void)
{
	pid_t pid = fork();

	if (!pid) {
		struct page_list list;

		_exit(page_read_all(&list, dir, &(struct page_wish){ 0 }) ? 99 : (int)list.count);
	}
	assert_true(pid > 0);
	return exit_code(pid);
}

/* A checksum of everything written. */
static uint64_t sum_of(int fd)
{
	static uint8_t bytes[1 << 20];
	uint64_t sum = 0;
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, bytes, sizeof(bytes), at)) > 0; at += n)
		for (ssize_t i = 0; i < n; i++)
			sum = sum * 31 + bytes[i];
	assert_int_equal(n, 0);
	return sum;
}

static void test_a_forked_child_does_no_harm(void **state)
{
	uint64_t written;
	pid_t pid;
	int fd;

	(void)state;
	open_pair(1);
	stats_begin();
	stats_look();
	assert_int_equal(pages_seen(), 1);
	fd = open(own_page_file(), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	written = sum_of(fd);
	pid = fork();
	if (!pid) {
		pair.send->session->tally.breaks = 99; /* except for its view of the comms */
		stats_look();
		stats_end();
		_exit(0);
	}
	assert_int_equal(exit_code(pid), 0);
	assert_non_null(own_page_file());
	assert_true(sum_of(fd) == written);
	assert_int_equal(pages_seen(), 1); /* still held */
	stats_end();
	assert_null(own_page_file());
	assert_int_equal(pages_seen(), 0);
	close(fd);
	close_pair();
}

/* Files in the directory locked by a living process. */
static int pages_held(void)
{
	struct dirent *entry;
	DIR *list = opendir(dir);
	int held = 0;

	assert_non_null(list);
	while ((entry = readdir(list))) {
		struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
		int fd = *entry->d_name == '.' ? -1 : openat(dirfd(list), entry->d_name, O_RDONLY | O_CLOEXEC);

		held += fd >= 0 && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
		if (fd >= 0)
			close(fd);
	}
	closedir(list);
	return held;
}

static void make_file(const char *name, bool old)
{
	struct timespec times[2] = { { .tv_nsec = old ? 0 : UTIME_NOW },
				     { .tv_nsec = old ? 0 : UTIME_NOW } };
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(futimens(fd, times), 0);
	close(fd);
}

static bool remove_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !unlink(path);
}

static void test_old_pages_that_nobody_holds_are_removed(void **state)
{
	char own[64];

	(void)state;
	snprintf(own, sizeof(own), "anynet-stats.%d.00000000", (int)getpid());
	make_file("anynet-stats.1.00000000", true);
	make_file("anynet-stats.2.00000000", false); /* may be incomplete */
	make_file("anynet.1.00000000", true);
	make_file(own, true); /* of another process with the same pid */
	stats_begin();
	assert_false(remove_file("anynet-stats.1.00000000"));
	assert_true(remove_file("anynet-stats.2.00000000"));
	assert_true(remove_file("anynet.1.00000000"));
	assert_false(remove_file(own));
}

static void test_an_old_page_that_is_held_stays(void **state)
{
	struct timespec times[2] = { { 0 }, { 0 } };
	char name[400];
	pid_t pid;

	(void)state;
	stats_begin();
	strcpy(name, own_page_file());
	assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
	pid = fork();
	if (!pid) {
		struct stats_page page;

		if (stats_page_open(&page, dir))
			_exit(1);
		stats_page_close(&page);
		_exit(0);
	}
	assert_int_equal(exit_code(pid), 0);
	assert_non_null(own_page_file());
}

/* As in two containers with one /dev/shm, where both processes have pid 1. */
static void test_an_old_page_of_another_process_with_our_number_stays(void **state)
{
	struct timespec times[2] = { { 0 }, { 0 } };
	struct stats_page first, second;

	(void)state;
	assert_int_equal(stats_page_open(&first, dir), 0);
	assert_int_equal(utimensat(AT_FDCWD, first.path, times, 0), 0);
	assert_int_equal(stats_page_open(&second, dir), 0);
	assert_int_equal(access(first.path, F_OK), 0);
	assert_int_equal(pages_held(), 2);
	stats_page_close(&second);
	stats_page_close(&first);
}

/* Unless it kills the test. */
_Noreturn static void await_the_end(void)
{
	alarm(60);
	for (;;)
		pause();
}

/* A process with a file and a forked worker. The worker sends its own pid: by then it has closed the file. */
_Noreturn static void keep_page_and_worker(int tell)
{
	struct stats_page page;
	pid_t self;

	if (stats_page_open(&page, dir))
		_exit(1);
	if (!fork()) {
		self = getpid();
		if (write(tell, &self, sizeof(self)) != sizeof(self))
			_exit(1);
	}
	await_the_end();
}

static void test_a_worker_does_not_hold_the_page_of_its_parent(void **state)
{
	pid_t pid, worker;
	int tell[2];

	(void)state;
	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (!pid)
		keep_page_and_worker(tell[1]);
	assert_int_equal(read(tell[0], &worker, sizeof(worker)), sizeof(worker));
	assert_int_equal(pages_held(), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(pages_held(), 0);
	kill(worker, SIGKILL);
	assert_int_equal(unlink(own_page_file()), 0);
	close(tell[0]);
	close(tell[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, stats_pair_setup, stats_pair_teardown)
		TEST(test_without_a_page_nothing_happens),
		TEST(test_a_record_is_written_whole_or_it_is_an_error),
		TEST(test_a_full_disk_ends_the_page_only),
		TEST(test_a_hanging_file_system_delays_no_caller),
		TEST(test_a_thread_that_is_not_wanted_does_not_begin),
		TEST(test_a_thread_without_a_page_sleeps),
		TEST(test_a_forked_child_does_no_harm),
		TEST(test_old_pages_that_nobody_holds_are_removed),
		TEST(test_an_old_page_that_is_held_stays),
		TEST(test_an_old_page_of_another_process_with_our_number_stays),
		TEST(test_a_worker_does_not_hold_the_page_of_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
