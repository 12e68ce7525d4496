/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two jobs, controlled by the process that drives the test. All waiting is limited; after the limit the test fails and
 * prints the state of each job and stream. `ms` is scaled for sanitizers.
 */
#ifndef TESTS_FAULTS_DUO_H
#define TESTS_FAULTS_DUO_H

#include "job.h"

#include <sys/types.h>

struct duo {
	struct job_plan plan;
	struct shared *shared;
	pid_t pids[2];
	bool reaped[2];
	bool was_stopped;         /* durations of calls are not judged */
	uint64_t hurts_before[2]; /* end of the last duo_hurt */
};

/* Allocates two jobs that are not started yet. */
void duo_prepare(struct duo *duo, const struct job_plan *plan);

/* Forks both; duo_start also waits until they are connected. */
void duo_fork(struct duo *duo);
void duo_start(struct duo *duo, const struct job_plan *plan);

/* Messages done on all streams, as counted by the receivers; bytes likewise. */
uint64_t duo_messages(const struct duo *duo);
uint64_t duo_bytes(const struct duo *duo);

/* Waits until each stream's receiver has `more` messages more than now. */
void duo_move(struct duo *duo, uint64_t more, int ms);

/* Lets them run for a time; fails if a job fails. */
void duo_run(struct duo *duo, int ms);

/* Jobs stop posting, then complete what is posted at either end; duo_go lets them continue. */
void duo_hold(struct duo *duo);
void duo_go(struct duo *duo);

/* Waits up to `ms` for an error of a stream of that job. Returns how long it took. */
uint64_t duo_await_error(struct duo *duo, int side, int ms);
int duo_error(const struct duo *duo, int side);

/* deregMr and close with requests in flight; returns the duration of the slowest call. */
uint64_t duo_abort(struct duo *duo, int side);

/* The normal end: all that was posted arrives, both close and exit. Fails if a byte was wrong or a stream had an error.
 * Prints a line of figures. */
void duo_finish(struct duo *duo, const char *what);

/* Waits for a job that was told to close: it exits with success. */
void duo_reap(struct duo *duo, int side);

void duo_kill(struct duo *duo, int side);
void duo_stop(struct duo *duo, int side); /* SIGSTOP, and waits until it has stopped. */
void duo_continue(struct duo *duo, int side);

/* Faults that a job causes in itself from now on. */
void duo_hurt(struct duo *duo, int side, unsigned what, unsigned every_us);

/* … until it has caused `count` of them. */
void duo_await_hurts(const struct duo *duo, int side, uint64_t count);

/* … stops after at least one. */
void duo_hurt_end(struct duo *duo, int side);

/* Longest wait of any stream's oldest request since the reset, including one that still lasts. */
void duo_reset_stall(struct duo *duo);
uint64_t duo_stall_ns(const struct duo *duo);

/* WARNs are allowed from now on. */
void duo_forget_warns(struct duo *duo);
unsigned duo_warns(const struct duo *duo, int side, const char *text);

/* Fails the test, and prints the state of both jobs. */
_Noreturn void duo_failed(const struct duo *duo, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* One step of waiting for the jobs: 1 ms or less, and checks that they live. */
void duo_turn(const struct duo *duo);

double ms_of(uint64_t ns);

#endif
