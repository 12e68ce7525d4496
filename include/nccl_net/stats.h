/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page: what a process with open comms tells about itself, in a file that `anynet top`, `dump` and
 * `export` read.
 * The layout is here, the writer is transports/service/stats.c, the reader tools/stats/page.c.
 *
 * A page is made of records at fixed offsets, which the writer's background thread overwrites ten times a second,
 * each in one write. The writer waits for no reader: a record carries a sum of its bytes, and whoever
 * reads one that is half written finds that the sum is wrong, and reads it again. A record whose `sum` is
 * 0 is empty, and so is what lies behind the end of the file.
 *
 * The writer of a page holds an open file description lock (F_OFD_SETLK, for writing) on its first byte. A page
 * without one belongs to nobody any more; process numbers say nothing, as containers with the same /dev/shm each
 * have a process 1. For a reader a page is untrusted: any byte may be anything, texts need not end.
 *
 * Numbers are little-endian. Times are in ms of CLOCK_MONOTONIC, which is the same for all processes of a
 * host; 0 = never.
 */
#ifndef ANYNET_STATS_H
#define ANYNET_STATS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ANYNET_STATS_DIR "/dev/shm" /* ANYNET_STATS=auto */
#define ANYNET_STATS_PREFIX \
	"anynet-stats." /* of the file name; the pid, a dot and 8 digits follow */
#define ANYNET_STATS_MAGIC   0x7374617473796e61ull
#define ANYNET_STATS_VERSION 3

#define ANYNET_STATS_LOOK_MS 100  /* between two writes */
#define ANYNET_STATS_COMMS   1024 /* that a page has room for; others are only counted */
#define ANYNET_STATS_STREAMS 16   /* of a comm, likewise */
#define ANYNET_STATS_EVENTS  32   /* of a comm: the last ones */

/* A page that nobody holds, and nobody has written to for so long, may be removed by its owner. */
#define ANYNET_STATS_STALE_MS 10000

enum anynet_stats_kind {
	ANYNET_STATS_TCP = 1,
	ANYNET_STATS_QP = 2, /* a queue pair */
};

enum anynet_stats_state {
	ANYNET_STATS_UP = 1,
	ANYNET_STATS_SUSPECT = 2, /* its path gives no sign, or has lost its link */
	ANYNET_STATS_DOWN = 3,    /* no connection: a new one is being made */
};

/* The whole of a page's head. */
struct anynet_stats_process {
	uint64_t sum; /* of all behind it */
	uint64_t magic;
	uint32_t version;
	uint32_t comm_bytes; /* sizeof(struct anynet_stats_comm) */
	uint64_t started_ms; /* when the page was made */
	uint64_t written_ms;
	uint32_t pid; /* as the process itself sees it */
	uint32_t nccl_version;
	uint32_t comms; /* open now, with those that have no record */
	uint32_t slots; /* no record at this number or above is in use */
	char plugin[16];
	char net[16]; /* name presented to NCCL; "" = not known */
	char host[64];
	char program[16];
	char job[64];  /* the launcher's number or name for it; "" = none found */
	char rank[16]; /* likewise */
	uint8_t reserved[200];
};

struct anynet_stats_stream {
	uint64_t bytes;      /* payload handed to it (sender) */
	uint64_t frames;     /* sent or consumed, over all of its connections */
	uint64_t rate;       /* the kernel's delivery rate, bytes per s; sender, 0 = not known */
	uint64_t resent;     /* packets that the kernel retransmitted, on this connection */
	uint64_t acked;      /* bytes that the peer's kernel acknowledged, on this connection … */
	uint64_t busy_us;    /* … and the time with data in flight or to send; 0 = not known */
	uint32_t rtt_us;     /* 0 = not known */
	uint32_t breaks;     /* connections that broke */
	uint64_t down_ms;    /* since when it has no connection */
	uint16_t index;      /* in its comm */
	uint8_t kind, state; /* enum anynet_stats_…; kind 0 = there is none at this place */
	uint32_t epoch;      /* of its connection */
	char device[24];     /* NIC that it goes through; "" = not known */
	char path[112];
};

struct anynet_stats_comm {
	uint64_t sum;       /* of all behind it */
	uint64_t id;        /* new for each comm of the process */
	uint64_t comm_hash; /* NCCL's communicator; 0 = not known */
	uint64_t opened_ms;
	uint64_t bytes;    /* payload sent or placed */
	uint64_t requests; /* isend, or irecv, in all … */
	/* … and since when, or before, the oldest that is not done is there; 0 = none */
	uint64_t oldest_ms;
	/* Since when nothing has moved although requests wait; 0 = something does */
	uint64_t stalled_ms;
	uint32_t pending;       /* requests that are not done */
	uint32_t breaks, recoveries; /* connections that broke, that were replaced */
	uint32_t again;              /* frames that were retransmitted because of that (sender) */
	uint32_t stalls;        /* times that requests waited for ANYNET_STALL_WARN */
	int32_t error;          /* 0, or the -errno that ended it */
	uint32_t peer_pid;
	uint16_t stream_count; /* with those that have no record */
	uint8_t is_send;     /* 1: we send, 0: we receive */
	uint8_t closing;     /* 1: NCCL has closed it, but the peer does not have everything yet */
	char peer_host[64];
	char peer_device[64];
	char peer_addr[64];
	char device[64];
	char asked[96]; /* what waits; "" = nothing, or not for long */
	struct anynet_stats_stream streams[ANYNET_STATS_STREAMS];
};

/* What happens to a comm, or to one of its streams. Behind each what `number` and `text` are, if anything. */
enum anynet_stats_event_kind {
	ANYNET_EVENT_OPENED = 1,  /* streams; path of the first */
	ANYNET_EVENT_BROKE,       /* a stream's connection */
	ANYNET_EVENT_BACK,        /* ms without one; the new one's path */
	ANYNET_EVENT_MOVED,       /* to another connection, the old one still stood; its path */
	ANYNET_EVENT_REPLAY,      /* frames that are retransmitted over the new one */
	ANYNET_EVENT_SUSPECT,     /* why */
	ANYNET_EVENT_TRUSTED,     /* its path gives signs again */
	ANYNET_EVENT_LINK_DOWN,   /* the NIC's name */
	ANYNET_EVENT_LINK_UP,     /* likewise */
	ANYNET_EVENT_STALLED,     /* ms, ANYNET_STALL_WARN is over; what waits */
	ANYNET_EVENT_MOVING,      /* ms that the stall has lasted */
	ANYNET_EVENT_UNLINKED,    /* no queue pairs any more; why */
	ANYNET_EVENT_PEER_CLOSED, /* while nothing was asked of it */
	ANYNET_EVENT_LOST,        /* likewise; why */
	ANYNET_EVENT_CANCELLED,   /* NCCL has deregistered memory in use */
	ANYNET_EVENT_CLOSED,      /* requests that wait */
	ANYNET_EVENT_FAILED,      /* likewise; why */
	ANYNET_EVENT_KINDS
};

#define ANYNET_STATS_NO_STREAM UINT16_MAX

struct anynet_stats_event {
	uint64_t at_ms;
	uint32_t number;
	uint32_t epoch;  /* of the stream's connection */
	int32_t error;   /* 0, or the -errno of what broke or failed */
	uint16_t stream; /* index, or ANYNET_STATS_NO_STREAM: it is about the whole comm */
	uint8_t kind;    /* enum anynet_stats_event_kind */
	uint8_t carrier; /* of the stream then, enum anynet_stats_kind */
	char text[72];
};

/* A ring: event number i of the comm, from 0 on, is at i % ANYNET_STATS_EVENTS. */
struct anynet_stats_events {
	uint64_t sum;   /* of all behind it */
	uint64_t id;    /* of the comm */
	uint64_t count; /* of events, with those that are forgotten */
	struct anynet_stats_event events[ANYNET_STATS_EVENTS];
};

static_assert(sizeof(struct anynet_stats_process) == 448, "layout");
static_assert(sizeof(struct anynet_stats_stream) == 208, "layout");
static_assert(sizeof(struct anynet_stats_comm) == 448 + 16 * 208, "layout");

static_assert(sizeof(struct anynet_stats_event) == 96, "layout");
static_assert(sizeof(struct anynet_stats_events) == 24 + 32 * 96, "layout");

#define ANYNET_STATS_COMMS_AT  4096 /* of the first comm's record … */
#define ANYNET_STATS_COMM_STEP 8192
#define ANYNET_STATS_EVENTS_AT 4096 /* … and of its events, from there */
#define ANYNET_STATS_BYTES \
	(ANYNET_STATS_COMMS_AT + (size_t)ANYNET_STATS_COMMS * ANYNET_STATS_COMM_STEP)

static_assert(sizeof(struct anynet_stats_comm) <= ANYNET_STATS_EVENTS_AT, "room");
static_assert(sizeof(struct anynet_stats_events) <= ANYNET_STATS_COMM_STEP - ANYNET_STATS_EVENTS_AT,
	      "room");

static inline size_t anynet_stats_comm_at(unsigned slot)
{
	return ANYNET_STATS_COMMS_AT + (size_t)slot * ANYNET_STATS_COMM_STEP;
}

static inline size_t anynet_stats_events_at(unsigned slot)
{
	return anynet_stats_comm_at(slot) + ANYNET_STATS_EVENTS_AT;
}

/* The oldest event that is still there. */
static inline uint64_t anynet_stats_first_event(const struct anynet_stats_events *events)
{
	return events->count > ANYNET_STATS_EVENTS ? events->count - ANYNET_STATS_EVENTS : 0;
}

/* An event in words, but for its time. Its text has to end. Returns `text`. */
#define ANYNET_STATS_EVENT_BYTES 256
const char *anynet_stats_event_text(const struct anynet_stats_event *event, char *text,
				    size_t bytes);

/* Of a record of `bytes` bytes, all but the sum itself; never 0. Not against malice. */
static inline uint64_t anynet_stats_sum(const void *record, size_t bytes)
{
	uint64_t sum = 0xcbf29ce484222325ull, word;

	for (size_t at = sizeof(sum); at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, (const uint8_t *)record + at, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ull;
		sum ^= sum >> 32;
	}
	return sum ? sum : 1;
}

#endif
