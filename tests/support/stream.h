/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verified stream over one comm of an IB device on the fake libibverbs: messages of several sizes with distinct
 * contents, over queue pairs or TCP.
 */
#ifndef TESTS_SUPPORT_STREAM_H
#define TESTS_SUPPORT_STREAM_H

#include "buffer.h"
#include "fake.h"
#include "flow.h"
#include "link.h"
#include "memory.h"

#define STREAM_MESSAGES 120
#define STREAM_SIZES    5
#define STREAM_LARGEST  (400u << 10)

extern struct stream {
	struct link link;
	struct buffer from[STREAM_SIZES], to[STREAM_SIZES];
	void *mhandles[2][STREAM_SIZES];
	struct transfer sends[STREAM_MESSAGES], recvs[STREAM_MESSAGES];
	struct flow flows[2];
	uint64_t sent, received;
	int tags; /* used in rotation; the first from stream_open on */
} stream;

uint64_t stream_seed(uint64_t number);

void stream_open(struct test_net *net);

/* Sends all messages once more; `midway` (or NULL) is called after a third of them. */
void stream_run(struct test_net *net, void (*midway)(void));
void stream_close(struct test_net *net);

/* For loops that run it until something else has happened: after a pause, as of a job between its collectives. */
void stream_run_again(struct test_net *net, const struct deadline *deadline);

/* Work requests posted since `before`: does the stream use queue pairs? */
bool stream_by_verbs(const struct fake_verbs_counts *before);
uint64_t stream_bytes_by_verbs(const struct fake_verbs_counts *before);

/* Repeats until it does: the proof of a queue pair may fail, and is tried again. */
void stream_check_by_verbs(struct test_net *net);

#endif
