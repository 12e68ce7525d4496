/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process with low limits (setrlimit), and callers with small stacks: everything works, or a call returns an error
 * and the log says why.
 */
#include "attempt.h"
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/proc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOBODY      65534
#define STACK_BYTES (16u << 10) /* of a caller, above PTHREAD_STACK_MIN; 12 KiB suffice */
#define MIB         (1u << 20)

enum from {
	ABSOLUTE,
	FROM_NOW /* the limit is the current use plus this */
};

struct narrow {
	const char *name;
	int resource;
	enum from from;
	rlim_t limit;
	bool works; /* guaranteed */
	bool other; /* as another user, to whom the limit applies */
};

static const struct narrow narrows[] = {
	{ "descriptors + 0", RLIMIT_NOFILE, FROM_NOW, 0, false, false },
	{ "descriptors + 1", RLIMIT_NOFILE, FROM_NOW, 1, false, false },
	{ "descriptors + 2", RLIMIT_NOFILE, FROM_NOW, 2, false, false },
	{ "descriptors + 4", RLIMIT_NOFILE, FROM_NOW, 4, false, false },
	{ "descriptors + 6", RLIMIT_NOFILE, FROM_NOW, 6, false, false },
	{ "descriptors + 8", RLIMIT_NOFILE, FROM_NOW, 8, false, false },
	{ "descriptors + 10", RLIMIT_NOFILE, FROM_NOW, 10, false, false },
	{ "descriptors + 12", RLIMIT_NOFILE, FROM_NOW, 12, false, false },
	{ "descriptors + 16", RLIMIT_NOFILE, FROM_NOW, 16, false, false },
	{ "descriptors + 32", RLIMIT_NOFILE, FROM_NOW, 32, true, false },
	{ "threads 1", RLIMIT_NPROC, ABSOLUTE, 1, true, true },
	{ "addresses + 0", RLIMIT_AS, FROM_NOW, 0, false, false },
	{ "addresses + 1 MiB", RLIMIT_AS, FROM_NOW, MIB, false, false },
	{ "addresses + 2 MiB", RLIMIT_AS, FROM_NOW, 2 * MIB, false, false },
	{ "addresses + 4 MiB", RLIMIT_AS, FROM_NOW, 4 * MIB, false, false },
	{ "addresses + 64 MiB", RLIMIT_AS, FROM_NOW, 64 * MIB, true, false },
	{ "data 0", RLIMIT_DATA, ABSOLUTE, 0, false, false },
	{ "locked memory 0", RLIMIT_MEMLOCK, ABSOLUTE, 0, true, true },
	{ "file size 0", RLIMIT_FSIZE, ABSOLUTE, 0, true, false },
	{ "file size 4 KiB", RLIMIT_FSIZE, ABSOLUTE, 4096, true, false },
};
#define NARROWS (sizeof(narrows) / sizeof(narrows[0]))

static rlim_t used_now(int resource)
{
	unsigned long pages = 0;

	if (resource == RLIMIT_NOFILE)
		return proc_fds(NULL, 0);
	FILE *statm = fopen("/proc/self/statm", "re");
	check(statm && fscanf(statm, "%lu", &pages) == 1);
	fclose(statm);
	return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void apply(const struct narrow *narrow)
{
	rlim_t bytes = narrow->limit + (narrow->from == FROM_NOW ? used_now(narrow->resource) : 0);

	/* The hard limit as well: the plugin must not raise it. */
	check(!setrlimit((__rlimit_resource_t)narrow->resource, &(struct rlimit){ bytes, bytes }));
	if (narrow->other && !geteuid())
		check(!setuid(NOBODY));
}

/* The receiver closes while messages are in flight: the events of the sender's comm go to a file. */
static void leave_in_the_middle(void)
{
	struct deadline deadline = deadline_in(ATTEMPT_MS / 2, "an error");
	static char data[100];
	int err = 0;

	check_ok(driver_close_recv(attempt.net.driver, attempt.link.recv));
	attempt.link.recv = NULL;
	while (!err) {
		void *req = NULL;
		err = driver_isend(attempt.net.driver, attempt.link.send,
				   &(struct driver_send){ data, sizeof(data), 0, NULL, NULL },
				   &req);
		deadline_turn(&deadline);
	}
}

static int try_narrow(const struct job_plan *plan, const void *row)
{
	const struct narrow *narrow = row;
	bool fine;

	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	signal(SIGXFSZ, SIG_DFL);
	apply(narrow);
	fine = attempt_all();
	if (fine)
		leave_in_the_middle();
	attempt_close();
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	check_that(fine || atomic_load(&attempt.job.warns), "an error, and not a word about it");
	check_that(fine || !narrow->works, "it should do with that: %s", attempt.job.warn[0]);
	if (narrow->resource != RLIMIT_FSIZE) /* readable by this process, too */
		printf("%-18s %.*s\n", narrow->name, WARN_BYTES,
		       fine ? "works" : attempt.job.warn[0]);
	return ATTEMPT_DONE;
}

/* --- small stacks --- */

static void *with_small_stack(void *arg)
{
	*(bool *)arg = attempt_all();
	leave_in_the_middle();
	attempt_close();
	return arg;
}

static int try_stack(const struct job_plan *plan, const void *row)
{
	const char *bytes = getenv("STACK_BYTES");
	pthread_attr_t attr;
	pthread_t thread;
	bool fine = false;

	(void)row;
	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	check_ok(pthread_attr_init(&attr));
	check_ok(pthread_attr_setstacksize(&attr,
					   (size_t)PTHREAD_STACK_MIN +
						   (bytes ? (size_t)atoi(bytes) : STACK_BYTES)));
	check_ok(pthread_create(&thread, &attr, with_small_stack, &fine));
	check_ok(pthread_join(thread, NULL));
	check(fine);
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	return ATTEMPT_DONE;
}

/* --- all --- */

static void remove_directory(const char *dir)
{
	DIR *list = opendir(dir);
	struct dirent *entry;

	while (list && (entry = readdir(list)))
		unlinkat(dirfd(list), entry->d_name, 0);
	if (list)
		closedir(list);
	rmdir(dir);
}

static void limit_process(const struct run *run)
{
	const char *wanted = getenv("LIMIT_NAME");
	struct job_plan plan = run_plan(run);
	char dir[] = "/tmp/anynet-test-XXXXXX", stats[64], dumps[64];

	check(mkdtemp(dir) && !chmod(dir, 0777));
	snprintf(stats, sizeof(stats), "ANYNET_STATS=%s", dir);
	snprintf(dumps, sizeof(dumps), "ANYNET_DUMP_DIR=%s", dir);
	plan_set(&plan, stats);
	plan_set(&plan, dumps);
	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=3s");
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=2s");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=3s");
	for (size_t i = 0; i < NARROWS; i++)
		if (!wanted || !strcmp(wanted, narrows[i].name))
			attempt_apart(narrows[i].name, try_narrow, &plan, &narrows[i]);
	if (!wanted)
		attempt_apart("a small stack", try_stack, &plan, NULL);
	remove_directory(dir);
}

const struct scenario rlimit_scenarios[] = {
	{ "limit-process", limit_process, 20 },
	{ 0 },
};
