/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Missing files: /proc, /sys, /dev and /dev/shm empty, read-only or full, as in containers; one /dev/shm for containers
 * in which every process has pid 1; and file systems that never answer. The network works without any of them.
 */
#include "attempt.h"
#include "hurt.h"
#include "scenario.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_net/stats.h>

#define PLACES_MAX 4
#define SHM        "/dev/shm"

struct lack {
	const char *name;
	const char *places[PLACES_MAX]; /* mount points of empty file systems … */
	const char *options;            /* … with these options */
	unsigned long flags;
	bool full; /* read-only */
};

static const struct lack lacks[] = {
	{ "everything there", { NULL }, "", 0, false },
	{ "no /proc", { "/proc" }, "", MS_RDONLY, false },
	{ "no /sys", { "/sys" }, "", MS_RDONLY, false },
	{ "no /dev", { "/dev" }, "", MS_RDONLY, false },
	{ "read-only /dev/shm", { SHM }, "", MS_RDONLY, false },
	{ "full /dev/shm", { SHM }, "size=4k", 0, true },
	{ "/dev/shm without inodes", { SHM }, "nr_inodes=1", 0, false },
	{ "nothing at all", { "/proc", "/sys", "/dev", "/etc" }, "", MS_RDONLY, false },
};
#define LACKS (sizeof(lacks) / sizeof(lacks[0]))

static void own_mounts(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		check_skip("no mount namespace: %s", strerror(errno));
}

static void fill(const char *place)
{
	char path[64], page[4096] = { 0 };
	int fd;

	snprintf(path, sizeof(path), "%s/filler", place);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	check(fd >= 0);
	while (write(fd, page, sizeof(page)) > 0)
		;
	check_int(errno, ENOSPC);
	close(fd);
}

static void apply(const struct lack *lack)
{
	own_mounts();
	for (int i = 0; i < PLACES_MAX && lack->places[i]; i++) {
		check_that(!mount("none", lack->places[i], "tmpfs", lack->flags, lack->options),
			   "mount: %s", strerror(errno));
		if (lack->full)
			fill(lack->places[i]);
	}
}

static int try_without(const struct job_plan *plan, const void *row)
{
	const struct lack *lack = row;

	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	apply(lack);
	check_that(attempt_all(), "an error: %s", attempt.job.warn[0]);
	check_int(atomic_load(&attempt.job.warns), 0);
	attempt_close();
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	return ATTEMPT_DONE;
}

static struct job_plan files_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	return plan;
}

static void files(const struct run *run)
{
	struct job_plan plan = files_plan(run);

	if (geteuid())
		check_skip("mount namespaces need root");
	for (size_t i = 0; i < LACKS; i++)
		attempt_apart(lacks[i].name, try_without, &plan, &lacks[i]);
}

/* --- file systems that never answer, like that of a lost server --- */

/* FUSE's requests to the process that opened this are not even read. */
static int open_fuse(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		check_skip("/dev/fuse: %s", strerror(errno));
	return fd;
}

static void mount_hung(int fuse, const char *place)
{
	char options[80];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse);
	if (mount("hung", place, "fuse", MS_NOSUID | MS_NODEV, options))
		check_skip("FUSE: %s", strerror(errno));
}

struct hung {
	const char *place, *thread; /* the thread that hangs there */
	int fuse;
};

static bool has_thread(const char *wanted)
{
	DIR *list = opendir("/proc/self/task");
	struct dirent *entry;
	bool found = false;

	check(list);
	while (!found && (entry = readdir(list))) {
		char path[300], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		found = file && fgets(name, sizeof(name), file) &&
			!strncmp(name, wanted, strlen(wanted));
		if (file)
			fclose(file);
	}
	closedir(list);
	return found;
}

/* A comm fails and its events are to be written; others continue, and the process exits. */
static int try_hung(const struct job_plan *plan, const void *arg)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the statistics thread");
	const struct hung *hung = arg;

	own_mounts();
	mount_hung(hung->fuse, hung->place);
	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	check(attempt_start());
	for (uint64_t i = 0; i < 3; i++) {
		check(attempt_connect() && attempt_exchange(i, false));
		while (!has_thread("anynet-stats")) /* soon after the first comm */
			deadline_turn(&deadline);
		hurt_all(HURT_SHUT);
		check(!attempt_exchange(i, true));
		attempt_close();
	}
	check(has_thread(hung->thread));
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	return ATTEMPT_DONE;
}

/* The secret is on it. Without the secret there is no connection, and no call waits without limit. */
static int try_hung_secret(const struct job_plan *plan, const void *arg)
{
	const struct hung *hung = arg;

	own_mounts();
	mount_hung(hung->fuse, hung->place);
	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	check(attempt_start());
	check(has_thread(hung->thread));
	check(!attempt_connect());
	check(strstr(attempt.job.warn[0], "its file system does not answer; all connections are refused"));
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	return ATTEMPT_DONE;
}

static void hung_disk(const struct run *run)
{
	struct job_plan plan = run_plan(run);
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "the directory to be free");
	char dir[] = "/tmp/anynet-hung-XXXXXX", setting[64];
	struct hung hung = { SHM, "anynet-stats", open_fuse() };

	if (geteuid())
		check_skip("mount namespaces need root");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=0");
	attempt_apart("a /dev/shm that hangs", try_hung, &plan, &hung);
	close(hung.fuse);
	check(mkdtemp(dir));
	snprintf(setting, sizeof(setting), "ANYNET_DUMP_DIR=%s", dir);
	plan_set(&plan, setting);
	hung = (struct hung){ dir, "anynet-dump", open_fuse() };
	attempt_apart("a directory for dumps that hangs", try_hung, &plan, &hung);
	close(hung.fuse);
	snprintf(setting, sizeof(setting), "ANYNET_SECRET_FILE=%s/secret", dir);
	plan_set(&plan, setting);
	hung = (struct hung){ dir, "anynet-secret", open_fuse() };
	attempt_apart("a secret on a disk that hangs", try_hung_secret, &plan, &hung);
	close(hung.fuse);
	while (rmdir(dir)) /* namespaces end with a delay */
		deadline_turn(&deadline);
}

/* --- every process has pid 1 --- */

struct pages {
	unsigned all, held; /* number of files, and of those locked by a living process */
};

/* Makes each file `seconds` older. */
static struct pages count_pages(time_t seconds)
{
	struct pages pages = { 0, 0 };
	DIR *list = opendir(SHM);
	struct dirent *entry;

	check(list);
	while ((entry = readdir(list))) {
		struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
		struct timespec times[2];
		struct stat st;
		int fd;

		if (strncmp(entry->d_name, ANYNET_STATS_PREFIX, strlen(ANYNET_STATS_PREFIX)))
			continue;
		fd = openat(dirfd(list), entry->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0) /* it was removed meanwhile */
			continue;
		check(!fstat(fd, &st) && !fcntl(fd, F_OFD_GETLK, &lock));
		times[0] = times[1] = (struct timespec){ .tv_sec = st.st_mtim.tv_sec - seconds };
		check(!seconds || !futimens(fd, times));
		pages.all++;
		pages.held += lock.l_type != F_UNLCK;
		close(fd);
	}
	closedir(list);
	return pages;
}

static void await_held(unsigned count)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "statistics files");

	while (count_pages(0).held != count)
		deadline_turn(&deadline);
}

_Noreturn static void be_container(const struct job_plan *plan)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_int(getpid(), 1);
	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	check(attempt_start() && attempt_connect());
	for (;;)
		pause();
}

/* A connected process with pid 1, until its parent, whose pid is returned, is killed. */
static pid_t start_container(const struct job_plan *plan)
{
	fflush(NULL);
	pid_t parent = fork(), pid;
	check(parent >= 0);
	if (parent)
		return parent;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	check_that(!unshare(CLONE_NEWPID), "unshare: %s", strerror(errno));
	pid = fork();
	check(pid >= 0);
	if (!pid)
		be_container(plan);
	waitpid(pid, NULL, 0);
	_exit(TEST_FAILED);
}

static void one_shm(const struct run *run)
{
	struct job_plan plan = files_plan(run);
	pid_t first;

	if (geteuid())
		check_skip("PID namespaces need root");
	apply(&(struct lack){ "", { SHM }, "", 0, false });
	first = start_container(&plan);
	await_held(1);
	start_container(&plan);
	await_held(2);
	check(!kill(first, SIGKILL));
	await_held(1);
	check_int(count_pages(3600).all, 2); /* it has left its file */
	start_container(&plan);
	await_held(2);
	check_int(count_pages(0).all, 2);
}

const struct scenario file_scenarios[] = {
	{ "files", files, 10 },
	{ "hung-disk", hung_disk, 5 },
	{ "one-shm", one_shm, 5 },
	{ 0 },
};
