/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: what happened to a comm, the last events, with their times. They go onto the stats
 * page, and when the comm fails into the log, and into a file if ANYNET_DUMP_DIR names a directory.
 * Nothing on the data path comes here. With the comm's lock, or before anybody else knows it.
 */
#ifndef ANYNET_RECORDER_H
#define ANYNET_RECORDER_H

#include <stdint.h>

#include <nccl_net/stats.h>

struct anynet_comm;
struct anynet_stream;

struct recorder {
	uint64_t links_down; /* of the comm's NICs, as last noted */
	struct anynet_stats_events page;
};

/* NULL = no memory. */
struct recorder *recorder_create(void);

/* Something has happened to the comm, or to its stream (NULL = to all of it). `err`: 0 or -errno; `number` and
 * `text` (NULL = none) as enum anynet_stats_event_kind says. Nothing without a recorder. */
void recorder_note(struct anynet_comm *comm, const struct anynet_stream *stream,
		   enum anynet_stats_event_kind kind, int err, uint64_t number, const char *text);

/* Links of NICs may have gone or come back. */
void recorder_note_carriers(struct anynet_comm *comm);

/* It has failed: say what came before. */
void recorder_tell(const struct anynet_comm *comm);

#endif
