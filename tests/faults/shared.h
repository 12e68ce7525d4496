/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory shared by a test's driver and its two jobs: the driver sees the progress of each job at any moment, also of
 * one that was killed. Times are nanoseconds of the real CLOCK_MONOTONIC (real_ns), 0 = not yet.
 */
#ifndef TESTS_FAULTS_SHARED_H
#define TESTS_FAULTS_SHARED_H

#include <driver.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STREAMS_MAX    12
#define SETTINGS_MAX   8
#define WARN_BYTES     512
#define WARNS_KEPT     12
#define CALL_BYTES     80
#define MESSAGE_MAX    (4u << 20)
#define SIZES_MIX      0 /* job_plan.bytes: 0 B … MESSAGE_MAX, by the seed */
#define WINDOW         8 /* requests a stream has in flight (net-api.md §1.5) */
#define LIMIT_NONE     UINT64_MAX
#define TAGS_MAX       8
#define HURT_SHUT      0x01u /* shutdown of one of the process's connections in both directions */
#define HURT_SHUT_HALF 0x02u /* … in one direction */
#define HURT_RESET     0x04u /* ended by the kernel, as with ss -K: an error here, an RST there */
#define HURT_WALL      0x08u /* CLOCK_REALTIME jumps an hour */
#define HURT_CLOCK     0x10u /* CLOCK_MONOTONIC jumps an hour ahead */
#define HURT_FLIP      0x20u /* from now on one bit of every large piece is inverted when it is sent */
#define HURT_SHORT     0x40u /* … each accepted connection ends once it has received 64 KiB */

enum job_stage {
	JOB_NEW,
	JOB_UP,    /* connected */
	JOB_CLOSED /* all closed; the process is about to exit */
};

enum job_command {
	JOB_RUN,
	JOB_END,  /* all done: close */
	JOB_ABORT /* leave the loop at once and close, whatever is in flight */
};

/* One end of a comm. Counts are messages. */
struct stream_state {
	_Atomic uint64_t posted, done, bytes;
	_Atomic uint64_t waits_since_ns; /* 0 = nothing posted */
	_Atomic uint64_t done_ns;        /* of the last completed one */
	_Atomic uint64_t
		stall_ns;  /* longest wait of the oldest request; the driver may reset it */
	_Atomic int error; /* an NCCL result */
	_Atomic uint64_t error_ns;
};

struct job_state {
	_Atomic int stage, pid;
	_Atomic bool held; /* hold was seen: nothing more is posted */
	_Atomic uint64_t wrong_bytes, hurts;
	_Atomic uint64_t slept_ns; /* longest call of the plugin that gave up the CPU voluntarily */
	_Atomic uint64_t asked_ns; /* longest time that a call asked the kernel to sleep */
	char slept_in[CALL_BYTES], asked_in[CALL_BYTES]; /* … and which call */
	_Atomic uint64_t closed_ns,
		close_ns; /* end of the last, and the longest, deregMr or close */
	_Atomic unsigned warns;
	char warn[WARNS_KEPT][WARN_BYTES];
	struct stream_state streams[STREAMS_MAX];
};

struct shared {
	/* Driver to jobs. */
	_Atomic int command[2];
	_Atomic bool hold;      /* post nothing more … */
	_Atomic uint64_t limit; /* … and nothing beyond this number of messages of each stream */
	_Atomic unsigned ahead; /* receives posted beyond the limit */
	_Atomic unsigned hurt[2],
		hurt_us[2];         /* faults that a job causes in itself, and how often; 0 = none */
	_Atomic unsigned nap_ms[2]; /* longest pause between calls, at times; 0 = none */
	/* Job to job: plays NCCL's bootstrap network. */
	_Atomic bool listening[STREAMS_MAX];
	unsigned char handles[STREAMS_MAX][DRIVER_HANDLE_BYTES];
	struct job_state jobs[2];
};

/* Never through a clock_gettime that jumps. */
uint64_t real_ns(void);

#endif
