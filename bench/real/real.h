/* SPDX-License-Identifier: Apache-2.0 */
/*
 * real_bench: real NCCL with all its ranks on one GPU, a process each, told apart by NCCL_HOSTID so
 * that NCCL takes them for hosts of their own and everything between them goes through a network.
 *
 * A session is one set of processes with one net: they make a communicator, measure and check, and
 * end. What they found is in the area, which the parent reads. Functions return 0 or -GROUP_ERROR
 * after saying why.
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
#define REAL_SIZES_MAX  33                   /* 4 bytes to 16 GiB, doubled */
#define REAL_ROWS_MAX   (6 * REAL_SIZES_MAX) /* of as many collectives */
#define REAL_ROUNDS_MAX 101
#define REAL_TESTS_MAX  16
#define REAL_BYTES_MIN  4
#define REAL_BYTES_MAX  ((size_t)1 << 34)

/* "VAR=VALUE … PLUGIN" or "… builtin": the environment is set in the processes of this net only. */
struct real_net {
	const char *text; /* as given */
	const char *spec; /* the last word */
	bool builtin;     /* NCCL's own, without a plugin */
};

struct real_options {
	struct real_net nets[REAL_NETS_MAX];
	int net_count;
	int ranks, device;
	const char *nccl, *cudart; /* NULL = searched for */
	size_t bytes_min, bytes_max;
	int factor, iterations, warmups, rounds, limit_s;
	int cut_ms;       /* 0 = no sockets are shut */
	int api_newest;   /* of the tables in the plugin's file; 0 = all that there are */
	const char *logs; /* directory of NCCL's logs */
	FILE *csv;
	unsigned tests; /* bit n: tests[n] */
	bool dry_run;
};

/* One line of a table: what was measured, and by which test. */
struct real_row {
	int test;
	size_t bytes, count; /* count: elements in the call's own sense */
	double seconds;      /* of one call, the slowest rank's */
	uint64_t wrong;      /* elements, of all ranks */
};

struct real_area {
	struct nccl_id id;
	double seconds[REAL_RANKS_MAX];
	uint64_t wrong[REAL_RANKS_MAX];
	_Atomic unsigned turns[REAL_RANKS_MAX]; /* of a scene, for others to see */
	_Atomic uint64_t failed_ns;             /* when the first rank had an error; 0 = none had */
	_Atomic unsigned failures;              /* ranks that had one of their own */
	_Atomic unsigned cuts;                  /* connections that were shut */
	int nccl_version;
	char nccl_path[512];
	size_t bytes_max; /* as the GPU's memory allows */
	struct real_row rows[REAL_ROWS_MAX];
	int row_count;
	char notes[REAL_TESTS_MAX][160]; /* of scenes; "" = was not run */
};

/* A communicator and who is in it: members[its rank] = rank of the session. */
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
	char *send, *recv; /* on the GPU */
	float *host;
	size_t bytes;   /* of each of the three, at least bytes_max */
	uint32_t seed;  /* of the next data; alike in all ranks */
	uint64_t wrong; /* elements that this rank has found */
};

/* A collective is measured for sizes; a scene is run once and says in a note what it saw. */
struct real_test {
	const char *name, *redop;
	/* Collectives: enqueue it; element i of the result; bus bytes per byte. */
	int (*start)(struct session *s, const struct team *t, const float *send, float *recv,
		     size_t count);
	float (*expected)(const struct team *t, size_t count, size_t i, uint32_t seed);
	double (*bus)(int ranks);
	size_t (*parts)(int ranks); /* the size is of so many counts */
	/* Does one rank's input hold all parts; does its result? */
	bool send_parts, recv_parts;
	/* Scenes. */
	int (*scene)(struct session *s, char *note, size_t note_bytes);
	bool alone; /* in a session of its own */
};

/* Which session: with this net, in this round, of these tests (bits). */
struct real_session {
	int net, round;
	unsigned tests;
};

extern const struct real_test real_tests[];
extern const int real_test_count;

/* Measure and check; the row is added by rank 0. */
int collective_measure(struct session *s, int test, size_t bytes);
/* Only check, of `count` elements; adds to *wrong what this rank found. */
int collective_check(struct session *s, const struct real_test *test, const struct team *t,
		     size_t count, uint64_t *wrong);
/* Element i of the data of a session's rank, small enough for sums to be exact. */
float collective_value(int rank, size_t i, uint32_t seed);

/* The all-reduce, for scenes. */
const struct real_test *collective_all_reduce(void);

int scene_groups(struct session *s, char *note, size_t note_bytes);
int scene_splits(struct session *s, char *note, size_t note_bytes);
int scene_comms(struct session *s, char *note, size_t note_bytes);
int scene_registered(struct session *s, char *note, size_t note_bytes);
int scene_reinit(struct session *s, char *note, size_t note_bytes);
int scene_abort(struct session *s, char *note, size_t note_bytes);
int scene_killed(struct session *s, char *note, size_t note_bytes);

/* One session. GROUP_OK, GROUP_WRONG or GROUP_ERROR; the area is in g->area until
 * group_destroy(g); g->shared is NULL if there is none. */
int session_run(struct group *g, const struct real_options *opts, const struct real_session *which);
/* The parts of a session, for scenes that need others. */
int session_open(struct session *s, bool again);  /* again: into a session that has begun */
int team_open(struct session *s, struct team *t); /* all ranks at once */
void team_close(struct session *s, struct team *t);
int team_wait(struct session *s, const struct team *t);
/* The same without a word: 0 done, 1 NCCL reports *error, or nothing (0) long after another rank's
 * did; negative: the group is over. */
int team_poll(struct session *s, const struct team *t, int *error);
int nccl_check(struct session *s, const char *call, int result);
int cuda_check(struct session *s, const char *call, int result);

/* Shut connections of the plugin at random, about every `every_ms`, until cut_stop. */
int cut_start(struct session *s, int every_ms);
void cut_stop(void);
/* Ports for the plugin that no other socket of the process has; "" if there are none. */
void cut_port_range(char *text, size_t bytes);

/* The file of a rank's log. */
void proof_path(const struct real_options *opts, const struct real_session *which, int rank,
		char *path, size_t bytes);
/* Do the ranks' logs say that this net carried everything, and by the table that this NCCL has to
 * take? Prints what they say. 0 or -GROUP_ERROR. */
int proof_check(const struct real_options *opts, const struct real_session *which, int version);

struct results;
struct results *results_create(const struct real_options *opts);
void results_destroy(struct results *r);
void results_add(struct results *r, int net, int round, const struct real_area *area);
void print_head(const struct real_options *opts);
void print_rows(const struct real_area *area, int ranks);
/* Medians of the rounds, net beside net. */
void results_print(const struct results *r);

#endif
