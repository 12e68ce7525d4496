/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A verified stream over one comm of an IB device on the fake libibverbs: messages of several sizes, each with
 * bytes of its own, which go by queue pairs or over TCP.
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
#define STREAM_LARGEST  (1u << 20)

extern struct stream {
	struct link link;
	struct buffer from[STREAM_SIZES], to[STREAM_SIZES];
	void *mhandles[2][STREAM_SIZES];
	struct transfer sends[STREAM_MESSAGES], recvs[STREAM_MESSAGES];
	struct flow flows[2];
	uint64_t sent, received;
	int tags; /* in turns; 1 from stream_open on */
} stream;

uint64_t stream_seed(uint64_t number);

void stream_open(struct test_net *net);

/* All messages once more; `midway` (or NULL) is called when a third of them have come. */
void stream_run(struct test_net *net, void (*midway)(void));
void stream_close(struct test_net *net);

/* Work requests posted since `before`: does the stream go through queue pairs? */
bool stream_by_verbs(const struct fake_verbs_counts *before);
uint64_t stream_bytes_by_verbs(const struct fake_verbs_counts *before);

/* Run it again until it does: a queue pair may have been proved in vain, and is tried again. */
void stream_check_by_verbs(struct test_net *net);

#endif
