/* SPDX-License-Identifier: Apache-2.0 */
/* One small stream with all kinds of frames in it, over rails whose bytes the test carries. */
#ifndef TESTS_UNIT_STREAM_H
#define TESTS_UNIT_STREAM_H

#include "carrier.h"

#define STREAM_MESSAGES    9
#define STREAM_EAGER_BYTES 200
#define STREAM_CHUNK_BYTES 128
#define STREAM_TURNS_MAX   4000 /* in which it is over, whatever happens to it */

struct stream_shape {
	unsigned rails;
	bool checksum;
	bool late; /* the receives of one tag are posted by stream_post_late */
};

/* What is left of it. */
struct stream {
	struct carrier carrier;
	struct anynet_request *sends[STREAM_MESSAGES], *recvs[STREAM_MESSAGES]; /* NULL: done */
	bool posted; /* all receives are */
};

extern struct stream stream;

/* One that went undisturbed; of several rails the last one's bytes. */
struct stream_record {
	uint8_t tape[CARRIER_TAPE_BYTES];
	size_t bytes;
	uint64_t bytes_back; /* of the receiver's words */
};

/* cmocka's. */
int stream_setup(void **state);
int stream_teardown(void **state);

/* Both comms and the receives, then the sends. */
void stream_open(const struct stream_shape *shape);
void stream_post_late(void);
void stream_send(void);
void stream_close(void); /* also twice */

/* Test all requests once; sizes and bytes of those that are done must be right. Returns their number. */
size_t stream_take_done(void);
bool stream_all_done(void);

/* It has come to its end: no error, no WARN, every byte in its place and none besides. */
void stream_check(void);

void stream_learn(const struct stream_shape *shape, struct stream_record *record);

#endif
