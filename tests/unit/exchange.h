/* SPDX-License-Identifier: Apache-2.0 */
/* A small exchange with all kinds of frames in it, over streams whose bytes the test carries. */
#ifndef TESTS_UNIT_EXCHANGE_H
#define TESTS_UNIT_EXCHANGE_H

#include "carrier.h"

#define EXCHANGE_MESSAGES    9
#define EXCHANGE_EAGER_BYTES 200
#define EXCHANGE_CHUNK_BYTES 128
#define EXCHANGE_TURNS_MAX   4000 /* in which it is over, whatever happens to it */

struct exchange_shape {
	unsigned streams;
	bool checksum;
	bool late; /* the receives of one tag are posted by exchange_post_late */
};

/* What is left of it. */
struct exchange {
	struct carrier carrier;
	struct anynet_request *sends[EXCHANGE_MESSAGES], *recvs[EXCHANGE_MESSAGES]; /* NULL: done */
	bool posted; /* all receives are */
};

extern struct exchange exchange;

/* One that went undisturbed; of several streams the last one's bytes. */
struct exchange_record {
	uint8_t tape[CARRIER_TAPE_BYTES];
	size_t bytes;
	uint64_t bytes_back; /* of the receiver's words */
};

/* cmocka's. */
int exchange_setup(void **state);
int exchange_teardown(void **state);

/* Both comms and the receives, then the sends. */
void exchange_open(const struct exchange_shape *shape);
void exchange_post_late(void);
void exchange_send(void);
void exchange_close(void); /* also twice */

/* Test all requests once; sizes and bytes of those that are done must be right. Returns their number. */
size_t exchange_take_done(void);
bool exchange_all_done(void);

/* It has come to its end: no error, no WARN, every byte in its place and none besides. */
void exchange_check(void);

void exchange_learn(const struct exchange_shape *shape, struct exchange_record *record);

#endif
