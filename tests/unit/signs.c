/* SPDX-License-Identifier: Apache-2.0 */
#include "signs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/session/watch.h"

struct signs signs;

const struct stream_signs signs_healthy = { .rtt_us = 100 };
const struct stream_signs signs_waits = { .waiting = true, .rtt_us = 100 };
const struct stream_signs signs_tried_once = { .waiting = true, .tries = 1, .quiet_ms = UINT_MAX };
const struct stream_signs signs_dead = { .waiting = true, .tries = 2, .quiet_ms = UINT_MAX };

static struct anynet_stream_ops ops; /* the real operations, except for signs of life and heartbeats */

static bool scripted_signs(struct anynet_stream *stream, struct stream_signs *out)
{
	*out = signs.streams[stream->index];
	return !signs.mute;
}

static void counted_ping(struct anynet_stream *stream)
{
	signs.pings[stream->index]++;
}

int signs_setup(void **state)
{
	pair_setup_recovery(state);
	local_cfg.peer_timeout_ms = SIGNS_PEER_TIMEOUT_MS;
	local_cfg.stall_warn_ms = SIGNS_STALL_MS;
	signs.now = 1000000;
	return 0;
}

int signs_teardown(void **state)
{
	(void)state;
	pair_close(&signs.pair);
	capture_check();
	return 0;
}

static void script(struct anynet_comm *comm)
{
	memset(signs.streams, 0, sizeof(signs.streams));
	memset(signs.pings, 0, sizeof(signs.pings));
	signs.mute = false;
	ops = *comm->streams[0]->ops;
	ops.signs = scripted_signs;
	ops.ping = counted_ping;
	for (unsigned i = 0; i < comm->stream_count; i++)
		comm->streams[i]->ops = &ops;
}

struct anynet_request *signs_open_recv(unsigned streams)
{
	pair_open_recv(&signs.pair, streams);
	script(signs.pair.recv);
	return pair_irecv(&signs.pair, signs.in, 64, 7);
}

void signs_open_idle_send(unsigned streams)
{
	pair_open_send(&signs.pair, streams);
	script(signs.pair.send);
}

struct anynet_request *signs_open_send(unsigned streams)
{
	signs_open_idle_send(streams);
	return pair_isend(&signs.pair, signs.out, SIGNS_LARGE, 7);
}

struct anynet_comm *signs_comm(void)
{
	return signs.pair.send ? signs.pair.send : signs.pair.recv;
}

void signs_look_after(uint64_t ms)
{
	signs.now += ms;
	watch_comm(signs_comm(), signs.now);
}

void signs_lose(unsigned stream)
{
	signs.streams[stream] = signs_dead;
	signs_look_after(0);
	assert_false(signs_suspect(stream));
}

bool signs_suspect(unsigned stream)
{
	return signs_comm()->streams[stream]->state == STREAM_SUSPECT;
}
