/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run: it follows entirely from the seed and from the restrictions on the command line. */
#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H

#include "sim/process.h"

#define PLAN_FAULTS_MAX 64
#define PLAN_EDGES_MAX  256
#define PLAN_ENV_BYTES  64
#define PLAN_BLOCK_MAX  128
#define PLAN_AIMED_MAX  12 /* faults aimed at events, per run */
#define NARROW_BYTES    1100 /* larger segments are lost; those of a narrow connection are smaller */

enum fault_kind {
	FAULT_CARRIER, /* the cable of a NIC is unplugged; its host is notified */
	FAULT_SILENT,  /* a NIC loses all packets, without notice */
	FAULT_DEAF,    /* … the incoming ones */
	FAULT_DUMB,    /* … the outgoing ones */
	FAULT_CUT,     /* the path from one host to another, in one network and direction */
	FAULT_PARTED,  /* … in both directions */
	FAULT_LOSSY,   /* packets are lost at random */
	FAULT_SLOW,    /* a NIC's rate falls to a hundredth */
	FAULT_LATE,    /* round trips of half a second, with jitter */
	FAULT_NARROW,  /* packets over 1,100 bytes are lost */
	FAULT_FLIP,    /* bit errors in data that is read, where frames have checksums */
	FAULT_RESET,   /* both ends of a host's connections are reset, one end after the other */
	FAULT_HALF,    /* one end only */
	FAULT_STOP,    /* SIGSTOP */
	FAULT_NAP,     /* NCCL makes no calls */
	FAULT_FORK,    /* a forked child lives for this time */
	FAULT_CALLS,   /* system calls fail */
	FAULT_PORT,    /* an RDMA port is down: its host is notified */
	FAULT_GID,     /* … and comes up with its GID at another index */
	FAULT_DEVICE,  /* an RDMA device disappears with all its objects, and returns later */
	FAULT_QP,      /* all queue pairs of a device fail */
	FAULT_VERBS,   /* work requests and completions are late, lost, torn, out of order; calls fail */
	FAULT_PINNED,  /* registering memory fails */
	FAULT_SWITCH,  /* a whole network fails, with or without loss of carrier; only in runs that ask for it */
	FAULTS_GENTLE, /* no fault before this one may end a communicator */
	FAULT_ABORT = FAULTS_GENTLE, /* NCCL closes a comm in mid-transfer */
	FAULT_KILL,
	FAULT_POWER, /* a host is lost for good */
	FAULT_OUTAGE, /* a host has no network for longer than the time-outs */
	FAULT_KINDS
};

extern const char *const fault_names[FAULT_KINDS];

/* Events at which a fault may be aimed. */
enum plan_event {
	EVENT_CONNECTED, /* a comm has been created */
	EVENT_DONE,      /* an end has sent or received everything, and is about to close */
	EVENT_CLOSED,
	EVENT_BROKE,     /* a path has failed, or is suspect */
	EVENT_RECOVERED, /* … has recovered */
	EVENT_DIALS,     /* a connect begins */
	EVENT_SHORT,     /* a write took less than it was given */
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
	uint64_t host, other, nic, pick; /* modulo the number of candidates */
};

/* One direction between two ranks: a send comm and a receive comm. */
struct plan_edge {
	unsigned from, to, dev_from, dev_to;
};

/* RDMA NICs (plan_verbs.c). */
struct plan_verbs {
	uint64_t hosts;   /* bit set of hosts that have them */
	bool infiniband;  /* instead of RoCE */
	bool by_caller;   /* requests leave before post_send returns */
	unsigned hurry;   /* factor by which retransmission time-outs are shorter */
	unsigned inline_bytes, sges; /* maximum per request */
};

struct plan {
	uint64_t seed;
	unsigned hosts, nics, ranks_per_host, messages, rounds;
	unsigned channels; /* edges side by side */
	unsigned block; /* messages that are posted in any order; two blocks may be in flight */
	unsigned tags, group; /* 1 = one tag, single receives */
	unsigned tags_from;   /* before this block all messages have one tag */
	unsigned receives;    /* posted at a time; 0 = as many as fit */
	bool together;        /* nothing is sent before accept has returned, as in NCCL */
	bool barrier;         /* a sender closes only when the receiver has everything, as at the end of a job */
	bool turns;           /* two paths fail by turns, without other faults */
	bool dead;            /* one path is dead while comms are set up */
	bool apart;           /* the first network has no RDMA, and only it fails */
	bool brief;           /* faults last for a moment, and time-outs are short: none may pass */
	bool polls;           /* a rank that waits for a send calls test as often as NCCL does */
	struct plan_verbs verbs;
	size_t bytes_max;
	uint64_t gap_ns; /* between blocks of messages */
	int abi;
	uint64_t bytes_per_ms, latency_ns, jitter_ns;
	unsigned mbps; /* the speed that NICs report */
	unsigned lossy, shortens, preempts, ack_delays;
	unsigned narrow; /* no larger segment passes a NIC, at any time; 0 = no limit */
	uint32_t sndbuf, rcvbuf;
	bool checksum, checksum_at_one; /* … only one of two ranks asks for them */
	unsigned edge_count, fault_count, setting_count;
	struct plan_edge edges[PLAN_EDGES_MAX];
	struct plan_fault faults[PLAN_FAULTS_MAX];
	struct plan_aim aims[EVENTS];
	char settings[PROCESS_ENV_MAX][PLAN_ENV_BYTES];
	uint64_t peer_timeout_ns, recovery_timeout_ns;
	bool deadly;
	int only_kind;         /* the only kind of fault; -1 = none, -2 = several */
	uint64_t faults_end_ns, limit_ns; /* limit_ns: when everything must be done */
	uint64_t
		stall_ns; /* the longest time of a message after the last fault, or of connect, or of accept after it */
	uint64_t spare_ns; /* … while another path works */
	bool roomy;        /* the posted messages pass within moments: queues delay nothing */
};

/* Restrictions by the command line; 0 = none. */
struct plan_limits {
	unsigned hosts, nics, messages, rounds;
	size_t bytes;
	uint64_t faults; /* bit set of the faults that remain; the last bit: those aimed at events */
	bool some_faults;
	bool plain;    /* no settings, no tags, one rank per host */
	bool together; /* threads are not delayed, reads and writes are not shortened */
	bool turns;    /* only runs of two paths that fail by turns */
	bool brief;    /* only runs with short faults and time-outs */
	bool stalls;   /* … by a fault of `kind` each time, with all else in order: plan_draw_stalls */
	bool window;   /* ten minutes of a job with one fault of the network: plan_draw_window */
	bool ib;       /* hosts have RDMA NICs */
	int kind;      /* the only kind of fault; -1 = all */
	unsigned quiet_seconds; /* this many seconds with two hosts and moderate traffic, without faults */
};

void plan_draw(struct plan *plan, uint64_t seed, const struct plan_limits *limits);
void plan_print(const struct plan *plan);

/* Number of devices of each rank. */
static inline unsigned plan_devices(const struct plan *plan)
{
	return plan->nics - plan->apart;
}

/* Are packets lost without a fault? */
static inline bool plan_loses(const struct plan *plan)
{
	return plan->lossy || plan->narrow;
}

/* A separate random stream per purpose: existing seeds stay valid when new draws are added. */
struct sim_random plan_stream(uint64_t seed, const char *purpose);
unsigned plan_one_of(struct sim_random *random, const unsigned *values, unsigned count);

#define ONE_OF(random, ...) \
	plan_one_of(random, (const unsigned[]){ __VA_ARGS__ }, sizeof((unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

/* --- settings (plan_settings.c) --- */

void plan_draw_settings(struct plan *plan);

/* --- runs about one subject (plan_subject.c) --- */

/* A network that loses large packets, a path that is dead while comms are set up, comms without messages; in most runs none. */
void plan_draw_subject(struct plan *plan, const struct plan_limits *limits);

/* Two paths that fail by turns. Returns the time in which faults begin. */
uint64_t plan_draw_turns(struct plan *plan);

/* --- RDMA NICs (plan_verbs.c) --- */

bool plan_has_verbs(const struct plan *plan, unsigned host);

/* Draws the hosts that have them, and their settings; only for a run with RDMA NICs. */
void plan_draw_verbs(struct plan *plan);

/* The time after which a queue pair without answers fails at the latest; 0: there are none. */
uint64_t plan_give_up_ns(const struct plan *plan);

/* The description of a host's devices for the fake libibverbs. */
void plan_describe_verbs(const struct plan *plan, unsigned host, char *text, size_t bytes);

/* --- runs that measure (plan_measure.c) --- */

/* Two hosts with two NICs, of which one fails at a time, and moderate traffic over both. */
void plan_draw_stalls(struct plan *plan, enum fault_kind kind);

/* A job on that many hosts, and one fault of the network. */
#define PLAN_WINDOW_HOSTS 64 /* unless --hosts says otherwise */

void plan_draw_window(struct plan *plan, unsigned hosts);
uint64_t plan_window_ns(void);

/* Two hosts that exchange a message in both directions four times a second, without faults. */
void plan_draw_quiet(struct plan *plan, unsigned seconds);

/* --- faults (plan_faults.c) --- */

/* All faults begin within span_ns from the start. */
void plan_draw_faults(struct plan *plan, uint64_t span_ns);

/* True if the network, the kernel of a host, or a stopped process was at fault at any time in the interval. */
bool plan_outage(const struct plan *plan, uint64_t from_ns, uint64_t to_ns);

/* When the last fault before now_ns ended; 0: one is active now, or none occurred. */
uint64_t plan_calm_since(const struct plan *plan, uint64_t now_ns);

/* True if there was no fault so far, or only for a short time. */
bool plan_is_calm(const struct plan *plan, uint64_t now_ns);

/* True if one of several networks, and everything else, worked during the whole interval. */
bool plan_has_spare(const struct plan *plan, uint64_t from_ns, uint64_t to_ns);

#endif
