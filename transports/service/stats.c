/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the contents of the stats page; see stats.h. */
#include "service/stats.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/stats.h>

#include "base/libc_text.h"
#include "base/os.h"
#include "service/stats_page.h"
#include "session/registry.h"

#define ENTER_TRIES 20   /* attempts to take a comm's lock between two calls of its user */
#define ASKED_MS    1000 /* a stall is reported after this time */

/* Used by one thread at a time, without a lock. */
static struct {
	struct stats_page page; /* fd < 0: the settings want none, or it has failed */
	uint64_t next_id;
	uint64_t started_ms;
	unsigned slots;                    /* records used so far */
	uint64_t sums[ANYNET_STATS_COMMS]; /* checksum of each record in the file; 0 = empty */
	struct {
		uint64_t id, count; /* the comm whose events are in the file, and their number */
	} told[ANYNET_STATS_COMMS];
	struct anynet_stats_comm record; /* of the comm being visited */
	struct anynet_stats_events events;
} stats = { .page.fd = -1 };

/* One stats_look. Ages are measured by os_now_ms, which leaves out long pauses, and written as CLOCK_MONOTONIC
 * times. */
struct round {
	uint64_t now, clock_ms;
	unsigned comms;
	int err;
	bool told, happened; /* stats.record is filled; stats.events is filled */
	bool seen[ANYNET_STATS_COMMS];
};

static uint64_t by_clock(const struct round *round, uint64_t since)
{
	uint64_t age = since < round->now ? round->now - since : 0;

	return !since ? 0 : age < round->clock_ms ? round->clock_ms - age : 1;
}

/* Truncates texts that are too long, and zeroes the rest of the field, because all of it is written. */
static void put_text(char *to, size_t room, const char *from)
{
	size_t bytes = strnlen(from, room - 1);

	memcpy(to, from, bytes);
	memset(to + bytes, 0, room - bytes);
}
#define PUT_TEXT(field, from) put_text(field, sizeof(field), from)

/* --- a comm, with its lock --- */

static void tell_stream(const struct anynet_stream *stream, const struct round *round,
			struct anynet_stats_stream *out)
{
	static const uint8_t states[] = { [STREAM_DOWN] = ANYNET_STATS_DOWN,
					  [STREAM_UP] = ANYNET_STATS_UP,
					  [STREAM_SUSPECT] = ANYNET_STATS_SUSPECT };
	bool by_qp = stream->qp.carries;
	const struct anynet_device *nic = by_qp ? stream->qp.nic : stream->path.nic.dev;

	out->bytes = stream->sent.bytes;
	out->frames = stream_frames(stream);
	out->rate = stream->comm->is_send ? stream->path.health.seen.rate : 0;
	out->resent = stream->path.health.seen.resent;
	/* Of a connection, or of a queue pair: the other is 0. */
	out->acked = stream->path.health.seen.acked + stream->path.health.seen.qp.acked;
	out->busy_us = stream->path.health.seen.busy_us + stream->path.health.seen.qp.busy_us;
	out->rtt_us = stream->path.health.seen.rtt_us + stream->path.health.seen.qp.rtt_us;
	out->breaks = stream->breaks.count;
	out->down_ms = !stream_stands(stream) ? by_clock(round, stream->breaks.ms) : 0;
	out->index = stream->index;
	out->epoch = stream->epoch;
	out->kind = by_qp ? ANYNET_STATS_QP : ANYNET_STATS_TCP;
	out->state = states[stream->state];
	PUT_TEXT(out->device, nic ? nic->name : "");
	PUT_TEXT(out->path, stream->path.text);
}

/* Requests complete in about the order in which they are posted. `mark` is the number of requests at an earlier look:
 * while fewer than that are done, the oldest pending one is at least as old as that look. */
static uint64_t oldest_since(struct comm_tally *tally, unsigned pending, uint64_t now)
{
	if (!pending || tally->requests - pending >= tally->mark) {
		tally->mark = tally->requests;
		tally->mark_ms = now;
	}
	return pending ? tally->mark_ms : 0;
}

static void tell_requests(struct anynet_comm *comm, const struct round *round,
			  struct anynet_stats_comm *out)
{
	struct comm_tally *tally = &comm->session->tally;
	uint32_t count = message_ops(comm)->requests(comm);
	uint64_t stalled = comm->session->watch.since_ms;

	tally->requests += (uint32_t)(count - tally->counted);
	tally->counted = count;
	out->requests = tally->requests;
	out->pending = comm_pending(comm);
	out->oldest_ms = by_clock(round, oldest_since(tally, out->pending, round->now));
	/* since_ms restarts at each progress, so a short time is not a stall. */
	if (!comm_is_waited_for(comm) || round->now < stalled + ASKED_MS || !stalled)
		return;
	out->stalled_ms = by_clock(round, stalled);
	message_ops(comm)->describe(comm, out->asked, sizeof(out->asked));
}

static void tell_peer(const struct anynet_comm *comm, struct anynet_stats_comm *out)
{
	out->peer_pid = comm->peer.pid;
	PUT_TEXT(out->peer_host, comm->peer.host);
	PUT_TEXT(out->peer_device, comm->peer.device);
	PUT_TEXT(out->peer_addr, comm->peer.addr);
	PUT_TEXT(out->device, comm->dev->name);
}

static void tell_comm(struct anynet_comm *comm, const struct round *round,
		      struct anynet_stats_comm *out)
{
	struct comm_tally *tally = &comm->session->tally;
	unsigned told = 0;

	memset(out, 0, sizeof(*out));
	if (!tally->id) {
		tally->id = ++stats.next_id;
		tally->opened_ms = round->clock_ms;
	}
	out->id = tally->id;
	out->opened_ms = tally->opened_ms;
	out->comm_hash = comm->session->paths.comm_hash;
	out->bytes = message_ops(comm)->bytes(comm);
	out->breaks = tally->breaks;
	out->recoveries = tally->recoveries;
	out->again = comm->counts.rewound;
	out->stalls = tally->stalls;
	out->error = comm_error(comm);
	out->is_send = comm->is_send;
	out->closing = atomic_load(&comm->session->closing);
	out->stream_count = comm->stream_count;
	tell_peer(comm, out);
	tell_requests(comm, round, out);
	for (unsigned i = 0; i < comm->stream_count && told < ANYNET_STATS_STREAMS; i++)
		if (comm->streams[i])
			tell_stream(comm->streams[i], round, &out->streams[told++]);
}

static bool enter(struct anynet_comm *comm)
{
	for (int i = 0; i < ENTER_TRIES; i++) {
		if (comm_try_enter(comm))
			return true;
		sched_yield();
	}
	return false;
}

/* Copy the comm's events if the file does not have all of them. Returns whether it copied. */
static bool take_events(const struct anynet_comm *comm, unsigned slot)
{
	uint64_t count = comm->session->recorder.page.count;

	if (stats.told[slot].id == comm->session->tally.id && stats.told[slot].count == count)
		return false;
	stats.told[slot].id = comm->session->tally.id;
	stats.told[slot].count = count;
	stats.events = comm->session->recorder.page;
	stats.events.id = comm->session->tally.id;
	return true;
}

/* Runs with the registry's lock, so it must not write to the file. */
static void visit(struct anynet_comm *comm, void *arg)
{
	struct round *round = arg;
	unsigned slot = (unsigned)comm->session->slot;

	round->comms++;
	if (slot >= ANYNET_STATS_COMMS)
		return;
	round->seen[slot] = true;
	if (round->err || !enter(comm))
		return;
	tell_comm(comm, round, &stats.record);
	round->happened = take_events(comm, slot);
	round->told = true;
	comm_leave(comm);
}

/* May block in the file system: call it without locks. */
static int put_comm(unsigned slot, bool happened)
{
	uint64_t sum = anynet_stats_sum(&stats.record, sizeof(stats.record));
	int ret = 0;

	if (happened)
		ret = stats_page_put(&stats.page, anynet_stats_events_at(slot), &stats.events,
				     sizeof(stats.events));
	if (ret || sum == stats.sums[slot])
		return ret;
	stats.sums[slot] = sum;
	if (slot >= stats.slots)
		stats.slots = slot + 1;
	return stats_page_put(&stats.page, anynet_stats_comm_at(slot), &stats.record,
			      sizeof(stats.record));
}

/* --- the process --- */

static int tell_process(const struct round *round)
{
	struct anynet_stats_process process = {
		.magic = ANYNET_STATS_MAGIC,
		.version = ANYNET_STATS_VERSION,
		.comm_bytes = sizeof(struct anynet_stats_comm),
		.started_ms = stats.started_ms,
		.written_ms = round->clock_ms,
		.pid = anynet_net.pid,
		.nccl_version = (uint32_t)anynet_net.nccl_version,
		.comms = round->comms,
		.slots = stats.slots,
	};

	PUT_TEXT(process.plugin, ANYNET_VERSION);
	PUT_TEXT(process.net, anynet_net.cfg->net);
	PUT_TEXT(process.host, anynet_net.host);
	PUT_TEXT(process.program, program_invocation_short_name);
	PUT_TEXT(process.job, anynet_net.cfg->job);
	PUT_TEXT(process.rank, anynet_net.cfg->rank);
	return stats_page_put(&stats.page, 0, &process, sizeof(process));
}

/* Clear the records of comms that are gone. */
static int forget(const struct round *round)
{
	static struct anynet_stats_comm nothing; /* id 0 = no comm */
	int ret = 0;

	for (unsigned slot = 0; slot < stats.slots && !ret; slot++) {
		if (round->seen[slot] || !stats.sums[slot])
			continue;
		stats.sums[slot] = 0;
		ret = stats_page_put(&stats.page, anynet_stats_comm_at(slot), &nothing,
				     sizeof(nothing));
	}
	return ret;
}

bool stats_are_on(void)
{
	const char *dir = anynet_net.cfg->stats;

	return *dir && strcmp(dir, "off");
}

void stats_begin(void)
{
	const char *dir = anynet_net.cfg->stats;
	int ret;

	stats_end();
	if (!stats_are_on())
		return;
	memset(stats.sums, 0, sizeof(stats.sums));
	memset(stats.told, 0, sizeof(stats.told));
	stats.slots = 0;
	stats.started_ms = os_now_us() / 1000;
	dir = strcmp(dir, "auto") ? dir : ANYNET_STATS_DIR;
	ret = stats_page_open(&stats.page, dir);
	if (ret)
		anynet_chat("no statistics file in %s: %s; `anynet top` does not show this process", dir,
			    error_text(-ret));
}

bool stats_look(void)
{
	static struct round round;

	if (stats.page.fd < 0)
		return false;
	memset(&round, 0, sizeof(round));
	round.now = os_now_ms();
	round.clock_ms = os_now_us() / 1000;
	for (unsigned slot = 0; registry_at(slot, visit, &round); slot++) {
		if (round.told && !round.err)
			round.err = put_comm(slot, round.happened);
		round.told = round.happened = false;
	}
	if (!round.err)
		round.err = forget(&round);
	if (!round.err)
		round.err = tell_process(&round);
	if (!round.err)
		return true;
	anynet_chat("cannot write the statistics file: %s; `anynet top` does not show this process",
		    error_text(-round.err));
	stats_page_close(&stats.page);
	return false;
}

void stats_end(void)
{
	stats_page_close(&stats.page);
}
