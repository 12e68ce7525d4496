/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call that the plugin makes, refused one after another as by the filter of a container (seccomp): from
 * before the plugin starts to the end of the process. Either everything works, or a call returns an error and the log
 * says why. Nothing crashes or hangs, no byte is wrong, and no peer without the secret is admitted.
 */
#include "attempt.h"
#include "hurt.h"
#include "scenario.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/fake.h>
#include <support/peer.h>
#include <support/unauth.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET      "the secret of all ranks of this job\n"
#define HEAR_MS     5000
#define PROOFS_MOST ((uint64_t)1 << 20) /* bytes over queue pairs before the first message */
#define AT_ONCE     3                   /* processes */
#define ANY         (-1)

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

/* Exit status of a try: a set of these, above any other status. */
enum outcome {
	TRIED = 0x10,
	GAVE_UP = 0x20 /* something returned an error */
};

/* Guaranteed without a secret. With one, its file and libcrypto are needed, too. */
enum promise {
	WORKS, /* everything works without this call */
	FAILS,
	FAILS_BY_TCP, /* … unless a queue pair carries the data, and none breaks: TCP carries it until the next one is proven */
};

enum variant {
	BY_TCP,
	WITH_SECRET,
	BY_VERBS
};

struct refusal {
	const char *name;
	long nr;
	int err, first; /* errno; for calls with this first argument, or ANY */
	enum promise promise;
};

#define CALL(name, err, promise)                     \
	{                                            \
#name, SYS_##name, err, ANY, promise \
	}

/* Not listed: calls that the C library itself needs (futex, brk, munmap, exit_group), those that cannot fail (getpid,
 * close, clock_gettime) and those before the start (of dlopen). */
static const struct refusal refusals[] = {
	{ "none", -1, 0, ANY, WORKS },
	CALL(socket, EPERM, FAILS),
	{ "socket(AF_NETLINK)", SYS_socket, EAFNOSUPPORT, AF_NETLINK, FAILS },
	{ "socket(AF_INET)", SYS_socket, EACCES, AF_INET, FAILS },
	CALL(bind, EACCES, FAILS),
	CALL(listen, EPERM, FAILS),
	CALL(accept4, EPERM, FAILS),
	CALL(accept4, ENOSYS, FAILS),
	CALL(connect, EPERM, FAILS),
	CALL(connect, EACCES, FAILS),
	CALL(setsockopt, EPERM, WORKS),
	CALL(getsockopt, EPERM, WORKS),
	CALL(getsockname, EPERM, FAILS),
	CALL(getpeername, EPERM, WORKS),
	CALL(shutdown, EPERM, WORKS),
	CALL(sendto, EPERM, FAILS),
	CALL(sendmsg, EPERM, FAILS_BY_TCP),
	CALL(recvfrom, EPERM, FAILS),
	CALL(recvmsg, EPERM, WORKS),
	CALL(epoll_create1, EPERM, FAILS),
	CALL(epoll_create1, ENOSYS, FAILS),
	CALL(epoll_ctl, EPERM, FAILS),
	CALL(epoll_pwait, EPERM, WORKS),
	CALL(eventfd2, ENOSYS, WORKS),
	CALL(eventfd2, EPERM, WORKS),
	CALL(ioctl, EPERM, WORKS),
	CALL(read, EPERM, WORKS),
	CALL(write, EPERM, WORKS),
	CALL(pwrite64, EPERM, WORKS),
	CALL(openat, EACCES, WORKS),
	CALL(openat, ENOSYS, WORKS),
	CALL(newfstatat, EPERM, WORKS),
	CALL(getdents64, EPERM, WORKS),
	CALL(readlinkat, EPERM, WORKS),
	CALL(unlinkat, EPERM, WORKS),
	CALL(fcntl, EPERM, WORKS),
	CALL(ftruncate, EPERM, WORKS),
	CALL(mmap, EPERM, FAILS),
	CALL(mprotect, EPERM, WORKS),
	CALL(madvise, EPERM, WORKS),
	CALL(clone3, ENOSYS, WORKS),
	CALL(clone, EPERM, WORKS),
	{ "clone3, EPERM", SYS_clone3, EPERM, ANY, WORKS },
	CALL(set_robust_list, EPERM, WORKS),
	CALL(rt_sigprocmask, EPERM, WORKS),
	CALL(rt_sigaction, EPERM, WORKS),
	CALL(prctl, EPERM, WORKS),
	CALL(prlimit64, EPERM, WORKS),
	CALL(sched_getaffinity, EPERM, WORKS),
	CALL(sched_setaffinity, EPERM, WORKS),
	CALL(sched_yield, EPERM, WORKS),
	CALL(clock_nanosleep, EPERM, WORKS),
	CALL(getrandom, EPERM, FAILS),
	CALL(getrandom, ENOSYS, FAILS),
	CALL(sysinfo, EPERM, WORKS),
	CALL(uname, EPERM, WORKS),
	CALL(geteuid, EPERM, WORKS),
	CALL(dup3, EPERM, WORKS),
	CALL(ppoll, EPERM, WORKS),
#if defined(__x86_64__)
	CALL(epoll_wait, EPERM, FAILS),
	CALL(poll, EPERM, WORKS),
	CALL(readlink, EPERM, WORKS),
	CALL(unlink, EPERM, WORKS),
	CALL(access, EPERM, WORKS),
#endif
};
#define REFUSALS (sizeof(refusals) / sizeof(refusals[0]))

static void install(const struct refusal *refusal)
{
	const unsigned nr = offsetof(struct seccomp_data, nr),
		       arch = offsetof(struct seccomp_data, arch),
		       first = offsetof(struct seccomp_data, args[0]);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refusal->nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refusal->first, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refusal->err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (refusal->nr < 0)
		return;
	if (refusal->first == ANY)
		code[5] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0, 0, 1);
	check_that(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
			   !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
		   "seccomp: %s", strerror(errno));
}

/* --- a peer without the secret --- */

enum answer {
	WAITS,
	REFUSED,
	WELCOMED
};

/* Of a process without the filter. */
static struct unauthenticated {
	_Atomic bool told;
	unsigned char handle[DRIVER_HANDLE_BYTES];
	_Atomic int answer;
} *unauthenticated;

static void be_unauthenticated_peer(int fd, void *arg)
{
	struct deadline deadline = deadline_in(ATTEMPT_MS, "a handle");
	struct anynet_wire_hello hello, answer;
	struct target target;

	(void)arg;
	(void)fd;
	while (!atomic_load(&unauthenticated->told))
		deadline_turn(&deadline);
	unauth_target(unauthenticated->handle, &target);
	hello = unauth_hello(&target);
	fd = unauth_dial(&target, 0);
	unauth_say(fd, &hello, sizeof(hello));
	if (unauth_hear(fd, &answer, sizeof(answer), HEAR_MS) != sizeof(answer))
		atomic_store(&unauthenticated->answer, REFUSED);
	else
		atomic_store(&unauthenticated->answer,
			     answer.type == ANYNET_WELCOME && !answer.status ? WELCOMED : REFUSED);
	close(fd);
}

/* `wanted`: the answer that it must get; WAITS = any but a welcome. */
static void meet_unauthenticated_peer(enum answer wanted)
{
	struct deadline deadline = deadline_in(ATTEMPT_MS / 2, "the answer to an unauthenticated peer");
	struct test_net *net = &attempt.net;
	void *listener = NULL, *comm = NULL;

	if (!unauthenticated || driver_listen(net->driver, net->ctx, 0, unauthenticated->handle, &listener))
		return;
	atomic_store(&unauthenticated->told, true);
	while (!comm && !atomic_load(&unauthenticated->answer)) {
		if (driver_accept(net->driver, listener, &comm))
			break;
		deadline_turn(&deadline);
	}
	if (wanted)
		check_int(atomic_load(&unauthenticated->answer), wanted);
	else
		check_that(!comm && atomic_load(&unauthenticated->answer) != WELCOMED,
			   "who has no secret is let in");
	check_ok(driver_close_recv(net->driver, comm));
	check_ok(driver_close_listen(net->driver, listener));
}

static void invite_unauthenticated_peer(void)
{
	static struct peer peer;

	unauthenticated = mmap(NULL, sizeof(*unauthenticated), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	check(unauthenticated != MAP_FAILED);
	peer_start(&peer, be_unauthenticated_peer, NULL);
}

/* --- one call --- */

/* A queue pair may break on a busy machine, and TCP cannot carry the stream meanwhile. */
static bool has_broken(const struct refusal *refusal)
{
	return refusal->promise == FAILS_BY_TCP && strstr(attempt.job.warn[0], "without a connection for");
}

static bool works_without(const struct refusal *refusal, enum variant variant)
{
	return refusal->promise == WORKS ||
	       (refusal->promise == FAILS_BY_TCP && variant == BY_VERBS);
}

/* More than the proofs of queue pairs. */
static bool has_used_verbs(void)
{
	void *fake = dlopen(getenv("ANYNET_IBVERBS_LIB"), RTLD_NOW | RTLD_NOLOAD);

	if (fake)
		dlclose(fake);
	return fake && fake_counts().bytes_sent[0] + fake_counts().bytes_sent[1] > PROOFS_MOST;
}

/* accept fails at once, and does not say that its time-out has passed. */
static void check_words_of_accept(const struct refusal *refusal, enum variant variant)
{
	char wanted[WARN_BYTES];
	bool said = refusal->nr != SYS_accept4;

	snprintf(wanted, sizeof(wanted), "accept on dev %s: %s; NCCL gets an error",
		 variant == BY_VERBS ? "fake0" : "lo", strerror(refusal->err));
	for (int i = 0; i < WARNS_KEPT; i++)
		said |= strstr(attempt.job.warn[i], wanted) != NULL;
	check_that(said, "no line '%s'", wanted);
}

static int try_once(const struct job_plan *plan, const struct refusal *refusal,
		    enum variant variant)
{
	bool with_secret = variant == WITH_SECRET, works = works_without(refusal, variant), fine;
	bool slower = false;

	attempt_prepare(plan);
	attempt.net.driver = job_load(plan, &attempt.job);
	if (with_secret || refusal->nr < 0)
		invite_unauthenticated_peer();
	install(refusal);
	fine = attempt_start() && attempt_connect();
	if (fine) {
		meet_unauthenticated_peer(with_secret ? WAITS : WELCOMED);
		fine = attempt_exchange(1, false);
	}
	if (fine && variant == BY_VERBS)
		slower = !has_used_verbs();
	check_that(!slower || refusal->nr >= 0, "no queue pair is used");
	if (fine && refusal->promise != FAILS_BY_TCP)
		hurt_all(HURT_SHUT);
	fine = fine && attempt_exchange(3, true);
	if (!fine)
		meet_unauthenticated_peer(WAITS);
	check_that(fine || atomic_load(&attempt.job.warns), "an error, and not a word about it");
	check_words_of_accept(refusal, variant);
	check_that(fine || with_secret || !works || has_broken(refusal), "it should do without: %s",
		   attempt.job.warn[0]);
	check_that(!fine || with_secret || works, "it goes on as if nothing were wrong");
	if (!fine)
		printf("%-20s %s: %.*s\n", refusal->name, strerror(refusal->err), WARN_BYTES,
		       attempt.job.warn[0]);
	else
		printf("%-20s %s: works%s\n", refusal->name, strerror(refusal->err),
		       slower ? ", by TCP" : "");
	attempt_close();
	check_ok(driver_finalize(attempt.net.driver, attempt.net.ctx));
	return TRIED | (fine ? 0 : GAVE_UP);
}

static pid_t start_one(const struct job_plan *plan, const struct refusal *refusal,
		       enum variant variant)
{
	fflush(NULL);
	pid_t pid = fork();
	check(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(try_once(plan, refusal, variant)); /* including the work at exit */
	}
	return pid;
}

/* REFUSED_CALL in the environment: only that one. */
static bool is_wanted(const struct refusal *refusal)
{
	const char *name = getenv("REFUSED_CALL");
	return !name || !strcmp(name, refusal->name);
}

static void refuse_all(const struct job_plan *plan, enum variant variant)
{
	pid_t pids[REFUSALS] = { 0 };
	unsigned failed = 0;
	int status;

	for (size_t i = 0; i < REFUSALS + AT_ONCE; i++) {
		if (i < REFUSALS && is_wanted(&refusals[i]))
			pids[i] = start_one(plan, &refusals[i], variant);
		if (i < AT_ONCE || !pids[i - AT_ONCE])
			continue;
		const struct refusal *refusal = &refusals[i - AT_ONCE];
		bool ended = peer_reap(pids[i - AT_ONCE], 2 * ATTEMPT_MS, &status);
		if (ended && WIFEXITED(status) && WEXITSTATUS(status) & TRIED)
			continue;
		fprintf(stderr, "%s refused with %s: %s, status 0x%x\n", refusal->name,
			strerror(refusal->err), ended ? "fails" : "hangs", (unsigned)status);
		failed++;
	}
	check_int(failed, 0);
}

static struct job_plan refused_plan(const struct run *run)
{
	struct job_plan plan = run_plan(run);

	plan_set(&plan, "ANYNET_TCP_CONNECTIONS=2");
	plan_set(&plan, "ANYNET_CONNECT_TIMEOUT=3s");
	plan_set(&plan, "ANYNET_PEER_TIMEOUT=2s");
	plan_set(&plan, "ANYNET_RECOVERY_TIMEOUT=3s");
	return plan;
}

static void refused(const struct run *run)
{
	struct job_plan plan = refused_plan(run);

	refuse_all(&plan, BY_TCP);
}

/* The fake libibverbs by the settings: a real adapter's driver needs the calls that it needs, too. */
static void refused_verbs(const struct run *run)
{
	struct job_plan plan = refused_plan(run);

	check_that(run->settings[0],
		   "refused-verbs: the fake libibverbs in the settings is wanted");
	refuse_all(&plan, BY_VERBS);
}

static void refused_secret(const struct run *run)
{
	struct job_plan plan = refused_plan(run);
	char path[] = "/tmp/anynet-secret-XXXXXX", setting[64];
	int fd = mkostemp(path, O_CLOEXEC);

	check(fd >= 0 && write(fd, SECRET, strlen(SECRET)) == (ssize_t)strlen(SECRET));
	close(fd);
	snprintf(setting, sizeof(setting), "ANYNET_SECRET_FILE=%s", path);
	plan_set(&plan, setting);
	refuse_all(&plan, WITH_SECRET);
	unlink(path);
}

const struct scenario refused_scenarios[] = {
	{ "refused", refused, 30 },
	{ "refused-secret", refused_secret, 30 },
	{ "refused-verbs", refused_verbs, 30 },
	{ 0 },
};
