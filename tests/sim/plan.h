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
	FAULT_PORT,    /* an RDMA port is down: its host is told */
	FAULT_GID,     /* … and comes up with its GID at another index */
	FAULT_DEVICE,  /* an RDMA device is gone, with all that was made of it; later it is back */
	FAULT_QP,      /* all queue pairs of a device fail */
	FAULT_VERBS,   /* work requests and completions are late, lost, torn, out of order; calls fail */
	FAULT_PINNED,  /* no more memory may be registered */
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

/* RDMA NICs (plan_verbs.c). */
struct plan_verbs {
	uint64_t hosts;   /* a bit for each that has them */
	bool infiniband;  /* not RoCE */
	bool by_caller;   /* requests leave before post_send returns */
	unsigned hurry;   /* retransmission time-outs are so many times shorter */
	unsigned inline_bytes, sges; /* of a request, at most */
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
	struct plan_verbs verbs;
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
	bool ib;       /* hosts have RDMA NICs */
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

/* --- RDMA NICs (plan_verbs.c) --- */

bool plan_has_verbs(const struct plan *plan, unsigned host);

/* Which hosts have them, and settings; for a run with them. */
void plan_draw_verbs(struct plan *plan);

/* Then a queue pair fails without answers, at the latest; 0: there are none. */
uint64_t plan_give_up_ns(const struct plan *plan);

/* What the fake libibverbs of a host is told of its devices. */
void plan_describe_verbs(const struct plan *plan, unsigned host, char *text, size_t bytes);

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
