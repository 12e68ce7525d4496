/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real_bench: real NCCL with all ranks on one GPU, one process each. Different values of NCCL_HOSTID make
 * NCCL treat the ranks as separate hosts, so that all their traffic uses a network.
 *
 * A session is one set of processes with one net: they create a communicator, measure, check, and exit.
 * Their results are in the area, which the parent reads. Functions return 0, or -GROUP_ERROR after
 * printing a message.
 */
#ifndef BENCH_REAL_REAL_H
#define BENCH_REAL_REAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "group.h"

#include "libs.h"

#define REAL_NETS_MAX   4
#define REAL_RANKS_MAX  16
#define REAL_SIZES_MAX  33                   /* powers of two from 4 bytes to 16 GiB */
#define REAL_ROWS_MAX   (6 * REAL_SIZES_MAX) /* six collectives with all sizes */
#define REAL_ROUNDS_MAX 101
#define REAL_TESTS_MAX  16
#define REAL_BYTES_MIN  4
#define REAL_BYTES_MAX  ((size_t)1 << 34)

/* "VAR=VALUE … PLUGIN" or "VAR=VALUE … builtin": the variables are set in the processes of this net only. */
struct real_net {
	const char *text; /* as on the command line */
	const char *spec; /* last word of text */
	bool builtin;     /* NCCL's own net, without a plugin */
};

struct real_options {
	struct real_net nets[REAL_NETS_MAX];
	int net_count;
	int ranks, device;
	const char *nccl, *cudart; /* NULL = search */
	size_t bytes_min, bytes_max;
	int factor, iterations, warmups, rounds, limit_s;
	int cut_ms;       /* mean interval of socket shutdowns; 0 = never */
	int api_newest;   /* newest API version the plugin file exports; 0 = all */
	const char *logs; /* directory for NCCL's logs */
	FILE *csv;
	unsigned tests; /* bit n = run real_tests[n] */
	bool dry_run;
};

/* One line of a table: a test with one size. */
struct real_row {
	int test;
	size_t bytes, count; /* count: elements, as in the argument of the call */
	double seconds;      /* duration of one call on the slowest rank */
	uint64_t wrong;      /* wrong elements on all ranks */
};

struct real_area {
	struct nccl_id id;
	double seconds[REAL_RANKS_MAX];
	uint64_t wrong[REAL_RANKS_MAX];
	_Atomic unsigned turns[REAL_RANKS_MAX]; /* progress counter of a scene, read by other ranks */
	_Atomic uint64_t failed_ns;             /* time of the first error of any rank; 0 = none */
	_Atomic unsigned failures;              /* ranks whose NCCL has reported an error */
	_Atomic unsigned cuts;                  /* connections that were shut down */
	int nccl_version;
	char nccl_path[512];
	size_t bytes_max; /* largest size that fits into the GPU's memory */
	struct real_row rows[REAL_ROWS_MAX];
	int row_count;
	char notes[REAL_TESTS_MAX][160]; /* results of scenes; "" = not run */
};

/* A communicator and its members: members[rank in comm] = rank in the session. */
struct team {
	void *comm, *stream;
	int size, rank;
	int members[REAL_RANKS_MAX];
};

/* One rank. */
struct session {
	struct group *group;
	struct real_area *area;
	const struct real_options *opts;
	const struct real_net *net;
	struct libs libs;
	struct team world;
	char *send, *recv; /* in GPU memory */
	float *host;
	size_t bytes;   /* size of send, recv and host: at least bytes_max */
	uint32_t seed;  /* of the next data; the same on all ranks */
	uint64_t wrong; /* wrong elements found by this rank */
};

/* A collective is measured with several sizes. A scene runs once and describes its result in a note. */
struct real_test {
	const char *name, *redop;
	/* Collectives: start the call; value of element i of the result; bus bytes per byte of the size. */
	int (*start)(struct session *s, const struct team *t, const float *send, float *recv,
		     size_t count);
	float (*expected)(const struct team *t, size_t count, size_t i, uint32_t seed);
	double (*bus)(int ranks);
	size_t (*parts)(int ranks); /* parts of `count` elements in a size */
	/* True if one rank's input, or its result, contains all parts. */
	bool send_parts, recv_parts;
	/* Scenes. */
	int (*scene)(struct session *s, char *note, size_t note_bytes);
	bool alone; /* needs a session of its own */
};

/* A session: with this net, in this round, running these tests (bits). */
struct real_session {
	int net, round;
	unsigned tests;
};

extern const struct real_test real_tests[];
extern const int real_test_count;

/* Measures and checks one size; rank 0 adds the row. */
int collective_measure(struct session *s, int test, size_t bytes);
/* Checks one call with `count` elements; adds the errors of this rank to *wrong. */
int collective_check(struct session *s, const struct real_test *test, const struct team *t,
		     size_t count, uint64_t *wrong);
/* Element i of a rank's data; small, so that sums are exact. */
float collective_value(int rank, size_t i, uint32_t seed);

/* The all-reduce, used by scenes. */
const struct real_test *collective_all_reduce(void);

int scene_groups(struct session *s, char *note, size_t note_bytes);
int scene_splits(struct session *s, char *note, size_t note_bytes);
int scene_comms(struct session *s, char *note, size_t note_bytes);
int scene_registered(struct session *s, char *note, size_t note_bytes);
int scene_reinit(struct session *s, char *note, size_t note_bytes);
int scene_abort(struct session *s, char *note, size_t note_bytes);
int scene_killed(struct session *s, char *note, size_t note_bytes);

/* Runs one session. Returns GROUP_OK, GROUP_WRONG or GROUP_ERROR. The area is in g->area until
 * group_destroy(g); g->shared is NULL if there is none. */
int session_run(struct group *g, const struct real_options *opts, const struct real_session *which);
/* Parts of a session, for scenes that need them separately. */
int session_open(struct session *s, bool again);  /* again: join a session that has begun */
int team_open(struct session *s, struct team *t); /* collective over all ranks */
void team_close(struct session *s, struct team *t);
int team_wait(struct session *s, const struct team *t);
/* As team_wait, without messages. Returns 0 = done, 1 = NCCL reports *error, or another rank
 * reported one long ago (*error 0); negative = the group has failed. */
int team_poll(struct session *s, const struct team *t, int *error);
int nccl_check(struct session *s, const char *call, int result);
int cuda_check(struct session *s, const char *call, int result);
/* Copies to GPU memory. On return this and all earlier copies and fills are complete: cudaMemset and cudaMemcpy do not
 * wait for the GPU, and the streams of the tests do not wait for the default stream. */
int session_upload(struct session *s, void *to, const void *from, size_t bytes);

/* Shuts down random connections of the plugin, about every `every_ms`, until cut_stop. */
int cut_start(struct session *s, int every_ms);
void cut_stop(void);
/* Writes a port range for the plugin that no other socket of the process uses; "" = none. */
void cut_port_range(char *text, size_t bytes);

/* Writes the path of a rank's log. */
void proof_path(const struct real_options *opts, const struct real_session *which, int rank,
		char *path, size_t bytes);
/* Checks in the ranks' logs that this net carried all traffic, with the API version that this NCCL
 * should use. Prints a summary. Returns 0 or -GROUP_ERROR. */
int proof_check(const struct real_options *opts, const struct real_session *which, int version);

struct results;
struct results *results_create(const struct real_options *opts);
void results_destroy(struct results *r);
void results_add(struct results *r, int net, int round, const struct real_area *area);
void print_head(const struct real_options *opts);
void print_rows(const struct real_area *area, int ranks);
/* Prints the medians of all rounds, with the nets side by side. */
void results_print(const struct results *r);

#endif
