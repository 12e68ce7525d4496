/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics file, called the stats page: the state of a process with open comms, for `anynet top`, `dump` and
 * `export`. This file defines its layout. transports/service/stats.c writes it, tools/shared/stats/page.c reads it.
 *
 * A page consists of records at fixed offsets. Ten times a second the writer overwrites those that have changed, each
 * in one write. It does not wait for readers: a record contains a checksum, and a reader that finds it wrong has met a
 * write in progress and reads the record again. A record whose `sum` is 0 is empty, and so is everything beyond the end
 * of the file.
 *
 * The writer holds an open file description lock (F_OFD_SETLK, F_WRLCK) on the first byte of its page. A page without a
 * lock has no owner. Process numbers do not identify owners, because containers that share /dev/shm each have a process
 * 1. Readers must not trust a page: any byte may have any value, and texts may lack their NUL.
 *
 * Numbers are little-endian. Times are milliseconds of CLOCK_MONOTONIC, which all processes of a host share; 0 = never.
 */
#ifndef ANYNET_STATS_H
#define ANYNET_STATS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ANYNET_STATS_DIR "/dev/shm" /* ANYNET_STATS=auto */
#define ANYNET_STATS_PREFIX \
	"anynet-stats." /* of the file name; the pid, a dot and 8 hex digits follow */
#define ANYNET_STATS_MAGIC   0x7374617473796e61ull
#define ANYNET_STATS_VERSION 3

#define ANYNET_STATS_LOOK_MS 100  /* between two updates */
#define ANYNET_STATS_COMMS   1024 /* comms with a record; others are only counted */
#define ANYNET_STATS_STREAMS 16   /* streams of a comm with an entry; others are only counted */
#define ANYNET_STATS_EVENTS  32   /* events of a comm that are kept: the last ones */

/* Any process of its user may remove a page that is not locked and was not written for this time. */
#define ANYNET_STATS_STALE_MS 10000

enum anynet_stats_kind {
	ANYNET_STATS_TCP = 1,
	ANYNET_STATS_QP = 2, /* a queue pair */
};

enum anynet_stats_state {
	ANYNET_STATS_UP = 1,
	ANYNET_STATS_SUSPECT = 2, /* its path gives no sign of life, or has lost its carrier */
	ANYNET_STATS_DOWN = 3,    /* no connection; a new one is being made */
};

/* The first record of a page. */
struct anynet_stats_process {
	uint64_t sum; /* anynet_stats_sum of this record */
	uint64_t magic;
	uint32_t version;
	uint32_t comm_bytes; /* sizeof(struct anynet_stats_comm) */
	uint64_t started_ms; /* when the page was created */
	uint64_t written_ms;
	uint32_t pid; /* in the process's own PID namespace */
	uint32_t nccl_version;
	uint32_t comms; /* open comms, including those without a record */
	uint32_t slots; /* records from this number on are not in use */
	char plugin[16];
	char net[16]; /* network name that NCCL uses for the plugin; "" = not known */
	char host[64];
	char program[16];
	char job[64];  /* the launcher's name or number of the job; "" = not found */
	char rank[16]; /* the launcher's number of the process; "" = not found */
	uint8_t reserved[200];
};

struct anynet_stats_stream {
	uint64_t bytes;      /* sender: payload bytes given to the stream */
	uint64_t frames;     /* frames sent or consumed, over all connections of the stream */
	uint64_t rate;       /* sender: the kernel's delivery rate, bytes per s; 0 = not known */
	uint64_t resent;     /* packets that the kernel retransmitted on this connection */
	/* Bytes that the peer's kernel acknowledged on this connection; queue pair: that arrived in frames of 4 KiB or more */
	uint64_t acked;
	/* Its time with data in flight or to send; queue pair: with such frames in flight; 0 = not known */
	uint64_t busy_us;
	uint32_t rtt_us;     /* queue pair: time until such a frame is known to have arrived; 0 = not known */
	uint32_t breaks;     /* connections that broke */
	uint64_t down_ms;    /* when the last connection broke; 0 = connected */
	uint16_t index;      /* of the stream in its comm */
	uint8_t kind, state; /* anynet_stats_kind (0 = unused entry), anynet_stats_state */
	uint32_t epoch;      /* of the connection */
	char device[24];     /* NIC of the connection; "" = not known */
	char path[112];
};

struct anynet_stats_comm {
	uint64_t sum;       /* anynet_stats_sum of this record */
	uint64_t id;        /* unique in the process; 0 = no comm */
	uint64_t comm_hash; /* NCCL's communicator; 0 = not known */
	uint64_t opened_ms;
	uint64_t bytes;    /* payload sent or placed */
	uint64_t requests; /* isend or irecv requests in all */
	/* The oldest pending request was posted at this time or earlier; 0 = none is pending */
	uint64_t oldest_ms;
	/* Since when there is no progress although requests are pending; 0 = not stalled */
	uint64_t stalled_ms;
	uint32_t pending;       /* requests that are not done */
	uint32_t breaks, recoveries; /* connections that broke; of these, replaced ones */
	uint32_t again;              /* sender: frames retransmitted because of breaks */
	uint32_t stalls;        /* stalls that reached ANYNET_STALL_WARN */
	int32_t error;          /* 0, or the -errno that ended the comm */
	uint32_t peer_pid;
	uint16_t stream_count; /* streams, including those without an entry in `streams` */
	uint8_t is_send;     /* 1: send comm, 0: receive comm */
	uint8_t closing;     /* 1: closed by NCCL and draining */
	char peer_host[64];
	char peer_device[64];
	char peer_addr[64];
	char device[64];
	char asked[96]; /* what a stalled comm waits for; "" = not stalled */
	struct anynet_stats_stream streams[ANYNET_STATS_STREAMS];
};

/* Events of a comm, or of one of its streams. The comments say what `number` and `text` contain, if anything. */
enum anynet_stats_event_kind {
	ANYNET_EVENT_OPENED = 1,  /* number: streams; text: path of the first */
	ANYNET_EVENT_BROKE,       /* a stream's connection broke */
	ANYNET_EVENT_BACK,        /* a stream recovered. number: ms it was down; text: path */
	ANYNET_EVENT_MOVED,       /* a stream left a working connection. text: new path */
	ANYNET_EVENT_REPLAY,      /* number: frames to retransmit on the new connection */
	ANYNET_EVENT_SUSPECT,     /* text: why the stream is suspect */
	ANYNET_EVENT_TRUSTED,     /* the stream is no longer suspect */
	ANYNET_EVENT_CARRIER_DOWN,   /* text: NIC that lost its carrier */
	ANYNET_EVENT_CARRIER_UP,     /* text: NIC that has its carrier again */
	ANYNET_EVENT_STALLED,     /* for ANYNET_STALL_WARN. number: ms; text: what waits */
	ANYNET_EVENT_MOVING,      /* progress after a stall. number: its duration in ms */
	ANYNET_EVENT_TCP_ONLY,    /* the comm uses TCP only from now on. text: why */
	ANYNET_EVENT_PEER_CLOSED, /* the peer closed the comm */
	ANYNET_EVENT_LOST,        /* recovery gave up while no request was pending. text: why */
	ANYNET_EVENT_CANCELLED,   /* NCCL deregistered memory in use */
	ANYNET_EVENT_CLOSED,      /* closed by NCCL. number: pending requests */
	ANYNET_EVENT_FAILED,      /* number: pending requests; text: why */
	ANYNET_EVENT_KINDS
};

#define ANYNET_STATS_NO_STREAM UINT16_MAX

struct anynet_stats_event {
	uint64_t at_ms;
	uint32_t number;
	uint32_t epoch;  /* of the stream's connection */
	int32_t error;   /* 0, or the -errno of the break or failure */
	uint16_t stream; /* index, or ANYNET_STATS_NO_STREAM if the event concerns the whole comm */
	uint8_t kind;    /* enum anynet_stats_event_kind */
	uint8_t carrier; /* of the stream at that time, enum anynet_stats_kind */
	char text[72];
};

/* A ring: event i of the comm, counted from 0, is at index i % ANYNET_STATS_EVENTS. */
struct anynet_stats_events {
	uint64_t sum;   /* anynet_stats_sum of this record */
	uint64_t id;    /* of the comm */
	uint64_t count; /* events in all, including overwritten ones */
	struct anynet_stats_event events[ANYNET_STATS_EVENTS];
};

static_assert(sizeof(struct anynet_stats_process) == 448, "layout");
static_assert(sizeof(struct anynet_stats_stream) == 208, "layout");
static_assert(sizeof(struct anynet_stats_comm) == 448 + 16 * 208, "layout");

static_assert(sizeof(struct anynet_stats_event) == 96, "layout");
static_assert(sizeof(struct anynet_stats_events) == 24 + 32 * 96, "layout");

#define ANYNET_STATS_COMMS_AT  4096 /* offset of the first comm's record */
#define ANYNET_STATS_COMM_STEP 8192
#define ANYNET_STATS_EVENTS_AT 4096 /* offset of a comm's events from its record */

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

/* The number of the oldest event in the ring. */
static inline uint64_t anynet_stats_first_event(const struct anynet_stats_events *events)
{
	return events->count > ANYNET_STATS_EVENTS ? events->count - ANYNET_STATS_EVENTS : 0;
}

/* Describe an event in words, without its time. event->text must end in NUL. Returns `text`. */
#define ANYNET_STATS_EVENT_BYTES 256
const char *anynet_stats_event_text(const struct anynet_stats_event *event, char *text,
				    size_t bytes);

/* The checksum of a record of `bytes` bytes without its first field, the sum. Never 0. Not cryptographic. */
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
