/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flight recorder: a comm's latest events with their times. They are in the shared-memory statistics file. When the
 * comm fails they are logged and, with ANYNET_DUMP_DIR, appended to a file. The data path records nothing. With the
 * comm's lock, or before other threads know the comm.
 */
#ifndef ANYNET_RECORDER_H
#define ANYNET_RECORDER_H

#include <stdint.h>

#include <nccl_net/stats.h>

struct anynet_comm;
struct anynet_stream;

struct recorder {
	uint64_t links_down; /* bit i: the link of NIC i of the comm's paths was down when last noted */
	struct anynet_stats_events page;
};

/* Record an event of the comm, or of `stream` (NULL = the whole comm). `err`: 0 or -errno. `number` and `text` (NULL =
 * none): see enum anynet_stats_event_kind. */
void recorder_note(struct anynet_comm *comm, const struct anynet_stream *stream,
		   enum anynet_stats_event_kind kind, int err, uint64_t number, const char *text);

/* Record links of the comm's NICs that went down or came up since the last call. */
void recorder_note_carriers(struct anynet_comm *comm);

/* The comm has failed: log its events and append them to the dump file. */
void recorder_tell(const struct anynet_comm *comm);

#endif
