/* SPDX-License-Identifier: Apache-2.0 */
/* What happens in a run: all of it follows from the seed, and from what the command line takes away. */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include "sim/process.h"

#define PLAN_FAULTS_MAX 64
#define PLAN_EDGES_MAX  256
#define PLAN_ENV_BYTES  64
#define PLAN_BLOCK_MAX  128
#define PLAN_AIMED_MAX  12 /* at events, in a run */

enum fault_kind {
	FAULT_CARRIER, /* a NIC's cable is out; its host is told */
	FAULT_SILENT,  /* a NIC: all is lost, without notice */
	FAULT_DEAF,    /* … what comes in */
	FAULT_DUMB,    /* … what goes out */
	FAULT_CUT,     /* the way from one host to another, in one network and direction */
	FAULT_PARTED,  /* … in both directions */
	FAULT_LOSSY,   /* packets are lost at random */
	FAULT_SLOW,    /* a NIC's rate falls to a hundredth */
	FAULT_LATE,    /* round trips of half a second, with jitter */
	FAULT_NARROW,  /* packets over 1,100 bytes are lost */
	FAULT_FLIP,    /* bits of what is read, where frames have checksums */
	FAULT_RESET,   /* both ends of a host's connections are reset, one after the other */
	FAULT_HALF,    /* one end only */
	FAULT_STOP,    /* SIGSTOP */
	FAULT_NAP,     /* NCCL makes no calls */
	FAULT_FORK,    /* a forked child lives so long */
	FAULT_CALLS,   /* system calls fail */
	FAULTS_GENTLE, /* so far no communicator may end */
	FAULT_ABORT = FAULTS_GENTLE, /* NCCL closes a comm in mid-transfer */
	FAULT_KILL,
	FAULT_POWER, /* a host is gone for good */
	FAULT_KINDS
};

extern const char *const fault_names[FAULT_KINDS];

/* What a fault may be aimed at. */
enum plan_event {
	EVENT_CONNECTED, /* a comm has been made */
	EVENT_DONE,      /* an end has sent or received all, and is about to close */
	EVENT_CLOSED,
	EVENT_BROKE,     /* a path; or it is suspect */
	EVENT_RECOVERED, /* … carries on */
	EVENT_DIALS,     /* a connect begins */
	EVENTS
};

struct plan_aim {
	unsigned per_million; /* of these events */
	enum fault_kind kind;
	uint64_t for_most_ns;
};

struct plan_fault {
	enum fault_kind kind;
	uint64_t at_ns, for_ns;
	uint64_t host, other, nic, pick; /* modulo how many there are */
};

/* One direction between two ranks: a send comm and a receive comm. */
struct plan_edge {
	unsigned from, to, dev_from, dev_to;
};

struct plan {
	uint64_t seed;
	unsigned hosts, nics, ranks_per_host, messages, rounds;
	unsigned block; /* messages that are posted in any order; two blocks may be in progress */
	unsigned tags, group; /* 1 = one tag, single receives */
	unsigned tags_from;   /* … as also before this block */
	bool together;        /* nothing is sent before accept has returned, as NCCL has it */
	bool barrier;         /* a sender closes when the receiver has everything, as at the end of a job */
	bool turns;           /* one and the other of two paths fails, and nothing else does */
	size_t bytes_max;
	uint64_t gap_ns; /* between blocks of messages */
	int abi;
	uint64_t bytes_per_ms, latency_ns, jitter_ns;
	unsigned mbps; /* what NICs say of themselves */
	unsigned lossy, shortens, preempts, ack_delays;
	uint32_t sndbuf, rcvbuf;
	bool checksum;
	unsigned edge_count, fault_count, setting_count;
	struct plan_edge edges[PLAN_EDGES_MAX];
	struct plan_fault faults[PLAN_FAULTS_MAX];
	struct plan_aim aims[EVENTS];
	char settings[PROCESS_ENV_MAX][PLAN_ENV_BYTES];
	uint64_t peer_timeout_ns, recovery_timeout_ns;
	bool deadly;
	int only_kind;         /* the one kind of fault there is; -1 = none, or several */
	uint64_t faults_end_ns, limit_ns; /* when all has to be over */
	uint64_t
		stall_ns; /* the most that a message may take after the last fault, or connect, or accept after it */
	uint64_t spare_ns; /* … while there is another path */
	bool roomy;        /* what is posted at a time passes within moments: queues make nobody late */
};

/* What the command line takes away; 0 = nothing. */
struct plan_limits {
	unsigned hosts, nics, messages, rounds;
	size_t bytes;
	uint64_t faults; /* a bit for each that stays; the last one: those that are aimed at events */
	bool some_faults;
	bool plain;    /* no settings, no tags, one rank a host */
	bool together; /* threads are not held up, reads and writes not cut short */
	bool turns;    /* only runs of two paths that fail by turns */
	int kind;      /* only this kind of fault; -1 = all */
	unsigned quiet_seconds; /* so long, two hosts, moderate traffic, nothing breaks */
};

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_limits *limits);
void plan_print(const struct plan *plan);

/* What is drawn for a purpose does not depend on what is drawn for others: seeds last when draws are added. */
struct sim_random plan_stream(uint64_t seed, const char *purpose);
unsigned plan_one_of(struct sim_random *random, const unsigned *values, unsigned count);

#define ONE_OF(random, ...) \
	plan_one_of(random, (const unsigned[]){ __VA_ARGS__ }, sizeof((unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

/* --- faults (plan_faults.c) --- */

/* Within span_ns from the start. */
void plan_draw_faults(struct plan *plan, uint64_t span_ns);

/* Was the network, a host's kernel, or a process that stood still, at fault at some time in between? */
bool plan_outage(const struct plan *plan, uint64_t from_ns, uint64_t to_ns);

/* When the last fault before that ended; 0: there is one now, or there was none. */
uint64_t plan_calm_since(const struct plan *plan, uint64_t now_ns);

/* Has nothing been at fault so far, or not for long? */
bool plan_is_calm(const struct plan *plan, uint64_t now_ns);

/* Has one of several networks been whole at each time in between, and all else, too? */
bool plan_has_spare(const struct plan *plan, uint64_t from_ns, uint64_t to_ns);

#endif
