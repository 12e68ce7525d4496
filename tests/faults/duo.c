/* SPDX-License-Identifier: Apache-2.0 */
#include "duo.h"
#include "measure.h"
#include "stream.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <support/check.h>
#include <support/peer.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UP_MS    60000
#define DRAIN_MS 60000
#define CLOSE_MS 20000
#define HURT_MS  60000
#define TURN_NS  1000000

double ms_of(uint64_t ns)
{
	return (double)ns / 1e6;
}

void duo_prepare(struct duo *duo, const struct job_plan *plan)
{
	*duo = (struct duo){ .plan = *plan, .reaped = { true, true } };
	check(plan_streams(plan) <= STREAMS_MAX);
	duo->shared = mmap(NULL, sizeof(*duo->shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(duo->shared != MAP_FAILED);
	atomic_store(&duo->shared->limit, LIMIT_NONE);
}

void duo_fork(struct duo *duo)
{
	pid_t parent = getpid();

	stream_template();
	for (int side = 0; side < 2; side++) {
		fflush(NULL);
		duo->pids[side] = fork();
		check_that(duo->pids[side] >= 0, "fork: %s", strerror(errno));
		if (!duo->pids[side]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				_exit(TEST_FAILED);
			job_run(&duo->plan, duo->shared, side);
		}
		duo->reaped[side] = false;
	}
}

/* --- diagnostics --- */

static struct stream_state *receiver_of(const struct duo *duo, unsigned stream)
{
	return &duo->shared->jobs[!plan_sender(&duo->plan, stream)].streams[stream];
}

static struct stream_state *sender_of(const struct duo *duo, unsigned stream)
{
	return &duo->shared->jobs[plan_sender(&duo->plan, stream)].streams[stream];
}

uint64_t duo_messages(const struct duo *duo)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < plan_streams(&duo->plan); i++)
		sum += atomic_load(&receiver_of(duo, i)->done);
	return sum;
}

uint64_t duo_bytes(const struct duo *duo)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < plan_streams(&duo->plan); i++)
		sum += atomic_load(&receiver_of(duo, i)->bytes);
	return sum;
}

int duo_error(const struct duo *duo, int side)
{
	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		int error = atomic_load(&duo->shared->jobs[side].streams[i].error);
		if (error)
			return error;
	}
	return 0;
}

static double age_s(uint64_t ns)
{
	return ns ? (double)(real_ns() - ns) / 1e9 : 0;
}

static void print_stream(const char *role, unsigned stream, const struct stream_state *state)
{
	fprintf(stderr, "    stream %u %s: posted %lu done %lu", stream, role,
		(unsigned long)atomic_load(&state->posted),
		(unsigned long)atomic_load(&state->done));
	if (atomic_load(&state->error))
		fprintf(stderr, ", error %d %.3f s ago", atomic_load(&state->error),
			age_s(atomic_load(&state->error_ns)));
	else if (atomic_load(&state->waits_since_ns))
		fprintf(stderr, ", waits %.3f s", age_s(atomic_load(&state->waits_since_ns)));
	fprintf(stderr, "\n");
}

static void print_job(const struct duo *duo, int side)
{
	const struct job_state *job = &duo->shared->jobs[side];
	unsigned warns = atomic_load(&job->warns);

	fprintf(stderr, "  job %d pid %d stage %d held %d hurts %lu wrong bytes %lu WARNs %u\n",
		side, (int)duo->pids[side], atomic_load(&job->stage), atomic_load(&job->held),
		(unsigned long)atomic_load(&job->hurts),
		(unsigned long)atomic_load(&job->wrong_bytes), warns);
	for (unsigned i = 0; i < plan_streams(&duo->plan); i++)
		print_stream(plan_sender(&duo->plan, i) == side ? "send" : "recv", i,
			     &job->streams[i]);
	for (unsigned i = 0; i < warns && i < WARNS_KEPT; i++)
		fprintf(stderr, "    WARN %s\n", job->warn[i]);
}

/* To examine a hang: FAULTS_KEEP=1 leaves the jobs stopped, for a debugger. */
static void keep_jobs(const struct duo *duo)
{
	if (!getenv("FAULTS_KEEP"))
		return;
	for (int side = 0; side < 2; side++)
		kill(duo->pids[side], SIGSTOP);
	fprintf(stderr, "the jobs are stopped; ^C or SIGTERM to pid %d ends them\n", (int)getpid());
	pause();
}

void duo_failed(const struct duo *duo, const char *fmt, ...)
{
	va_list args;

	fflush(stdout);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n");
	print_job(duo, 0);
	print_job(duo, 1);
	keep_jobs(duo);
	_exit(TEST_FAILED);
}

/* --- waiting --- */

/* A job that exits has failed a check, and has printed which. */
static void check_alive(const struct duo *duo)
{
	for (int side = 0; side < 2; side++) {
		siginfo_t info = { .si_pid = 0 };
		bool may_end = atomic_load(&duo->shared->jobs[side].stage) == JOB_CLOSED;
		if (duo->reaped[side] || may_end ||
		    waitid(P_PID, (id_t)duo->pids[side], &info, WEXITED | WNOHANG | WNOWAIT) ||
		    info.si_pid != duo->pids[side])
			continue;
		duo_failed(duo, "job %d ended by itself: %s %d", side,
			   info.si_code == CLD_EXITED ? "exit" : "signal", info.si_status);
	}
}

void duo_turn(const struct duo *duo)
{
	const struct timespec pause = { .tv_nsec = TURN_NS };

	check_alive(duo);
	nanosleep(&pause, NULL);
}

static void check_fine(const struct duo *duo)
{
	for (int side = 0; side < 2; side++) {
		if (duo_error(duo, side))
			duo_failed(duo, "job %d has an error", side);
		if (atomic_load(&duo->shared->jobs[side].wrong_bytes))
			duo_failed(duo, "wrong bytes");
	}
}

static void await(const struct duo *duo, const struct deadline *deadline)
{
	if (deadline_passed(deadline))
		duo_failed(duo, "waited in vain for %s", deadline->what);
	duo_turn(duo);
}

void duo_start(struct duo *duo, const struct job_plan *plan)
{
	duo_prepare(duo, plan);
	duo_fork(duo);
	struct deadline deadline = deadline_in(UP_MS, "the jobs to be connected");
	for (int side = 0; side < 2; side++) {
		while (atomic_load(&duo->shared->jobs[side].stage) != JOB_UP)
			await(duo, &deadline);
	}
	check_fine(duo);
}

void duo_move(struct duo *duo, uint64_t more, int ms)
{
	struct deadline deadline = deadline_in(ms, "messages");
	uint64_t wanted[STREAMS_MAX];

	for (unsigned i = 0; i < plan_streams(&duo->plan); i++)
		wanted[i] = atomic_load(&receiver_of(duo, i)->done) + more;
	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		while (atomic_load(&receiver_of(duo, i)->done) < wanted[i]) {
			check_fine(duo);
			await(duo, &deadline);
		}
	}
	check_fine(duo);
}

/* Not scaled: it is a duration and no limit. */
void duo_run(struct duo *duo, int ms)
{
	for (uint64_t end = real_ns() + (uint64_t)ms * 1000000u; real_ns() < end;) {
		check_fine(duo);
		duo_turn(duo);
	}
	check_fine(duo);
}

/* --- pausing --- */

static uint64_t most_posted(const struct duo *duo)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		uint64_t sent = atomic_load(&sender_of(duo, i)->posted);
		uint64_t received = atomic_load(&receiver_of(duo, i)->posted);
		most = sent > most ? sent : most;
		most = received > most ? received : most;
	}
	return (most + TAGS_MAX - 1) / TAGS_MAX * TAGS_MAX; /* whole blocks of tags */
}

static bool all_done(const struct duo *duo, uint64_t messages)
{
	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		if (atomic_load(&sender_of(duo, i)->done) < messages ||
		    atomic_load(&receiver_of(duo, i)->done) < messages)
			return false;
	}
	return true;
}

void duo_hold(struct duo *duo)
{
	struct deadline deadline = deadline_in(DRAIN_MS, "what was posted to be done");
	struct shared *shared = duo->shared;

	atomic_store(&shared->hold, true);
	for (int side = 0; side < 2; side++) {
		while (!atomic_load(&shared->jobs[side].held)) {
			check_fine(duo);
			await(duo, &deadline);
		}
	}
	atomic_store(&shared->limit, most_posted(duo));
	atomic_store(&shared->hold, false);
	while (!all_done(duo, atomic_load(&shared->limit))) {
		check_fine(duo);
		await(duo, &deadline);
	}
}

void duo_go(struct duo *duo)
{
	atomic_store(&duo->shared->limit, LIMIT_NONE);
}

/* --- ends of jobs --- */

uint64_t duo_await_error(struct duo *duo, int side, int ms)
{
	struct deadline deadline = deadline_in(ms, "an error");
	uint64_t began = real_ns();

	while (!duo_error(duo, side))
		await(duo, &deadline);
	return real_ns() - began;
}

void duo_reap(struct duo *duo, int side)
{
	int status;

	if (!peer_reap(duo->pids[side], CLOSE_MS, &status))
		duo_failed(duo, "job %d does not end", side);
	duo->reaped[side] = true;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		duo_failed(duo, "job %d ended with status 0x%x", side, (unsigned)status);
}

uint64_t duo_abort(struct duo *duo, int side)
{
	struct job_state *job = &duo->shared->jobs[side];
	struct deadline deadline = deadline_in(CLOSE_MS, "close");

	atomic_store(&duo->shared->command[side], JOB_ABORT);
	while (atomic_load(&job->stage) != JOB_CLOSED)
		await(duo, &deadline);
	return atomic_load(&job->close_ns);
}

static uint64_t sum_of_hurts(const struct duo *duo)
{
	return atomic_load(&duo->shared->jobs[0].hurts) + atomic_load(&duo->shared->jobs[1].hurts);
}

static uint64_t longest_sleep(const struct duo *duo)
{
	uint64_t a = atomic_load(&duo->shared->jobs[0].slept_ns);
	uint64_t b = atomic_load(&duo->shared->jobs[1].slept_ns);

	return a > b ? a : b;
}

void duo_finish(struct duo *duo, const char *what)
{
	duo_hurt(duo, 0, 0, 0);
	duo_hurt(duo, 1, 0, 0);
	duo_hold(duo);
	for (int side = 0; side < 2; side++)
		atomic_store(&duo->shared->command[side], JOB_END);
	for (int side = 0; side < 2; side++)
		duo_reap(duo, side);
	check_fine(duo);
	printf("%s: %lu messages, %.1f MB, %lu faults, 0 wrong bytes, longest stall %.0f ms", what,
	       (unsigned long)duo_messages(duo), (double)duo_bytes(duo) / 1e6,
	       (unsigned long)sum_of_hurts(duo), ms_of(duo_stall_ns(duo)));
	if (!duo->was_stopped)
		printf(", longest call that slept %.1f ms", ms_of(longest_sleep(duo)));
	printf("\n");
	fflush(stdout);
	for (int side = 0; side < 2 && !duo->was_stopped; side++)
		measure_check(&duo->shared->jobs[side]);
	munmap(duo->shared, sizeof(*duo->shared));
}

/* --- faults --- */

void duo_kill(struct duo *duo, int side)
{
	int status;

	kill(duo->pids[side], SIGKILL);
	check(peer_reap(duo->pids[side], CLOSE_MS, &status));
	duo->reaped[side] = true;
}

void duo_stop(struct duo *duo, int side)
{
	int status;

	duo->was_stopped = true;
	kill(duo->pids[side], SIGSTOP);
	check(waitpid(duo->pids[side], &status, WUNTRACED) == duo->pids[side]);
	check_that(WIFSTOPPED(status), "job %d ended instead of stopping", side);
}

void duo_continue(struct duo *duo, int side)
{
	kill(duo->pids[side], SIGCONT);
}

void duo_hurt(struct duo *duo, int side, unsigned what, unsigned every_us)
{
	duo->hurts_before[side] = atomic_load(&duo->shared->jobs[side].hurts);
	atomic_store(&duo->shared->hurt_us[side], every_us);
	atomic_store(&duo->shared->hurt[side], what);
}

void duo_await_hurts(const struct duo *duo, int side, uint64_t count)
{
	struct deadline deadline = deadline_in(HURT_MS, "a job to hurt itself");

	while (atomic_load(&duo->shared->jobs[side].hurts) < duo->hurts_before[side] + count) {
		check_fine(duo);
		await(duo, &deadline);
	}
}

void duo_hurt_end(struct duo *duo, int side)
{
	duo_await_hurts(duo, side, 1);
	duo_hurt(duo, side, 0, 0);
}

void duo_reset_stall(struct duo *duo)
{
	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		atomic_store(&sender_of(duo, i)->stall_ns, 0);
		atomic_store(&receiver_of(duo, i)->stall_ns, 0);
	}
}

uint64_t duo_stall_ns(const struct duo *duo)
{
	uint64_t longest = 0, now = real_ns();

	for (unsigned i = 0; i < plan_streams(&duo->plan); i++) {
		const struct stream_state *ends[] = { sender_of(duo, i), receiver_of(duo, i) };
		for (int end = 0; end < 2; end++) {
			uint64_t stall = atomic_load(&ends[end]->stall_ns);
			uint64_t since = atomic_load(&ends[end]->waits_since_ns);
			longest = stall > longest ? stall : longest;
			if (since && now > since && now - since > longest)
				longest = now - since;
		}
	}
	return longest;
}

void duo_forget_warns(struct duo *duo)
{
	for (int side = 0; side < 2; side++)
		atomic_store(&duo->shared->jobs[side].warns, 0);
}

unsigned duo_warns(const struct duo *duo, int side, const char *text)
{
	const struct job_state *job = &duo->shared->jobs[side];
	unsigned count = 0;

	for (unsigned i = 0; i < atomic_load(&job->warns) && i < WARNS_KEPT; i++)
		count += !text || strstr(job->warn[i], text) != NULL;
	return count;
}
