/* SPDX-License-Identifier: Apache-2.0 */
/* A small exchange with all kinds of frames, over streams whose bytes the test transfers. */
#ifndef TESTS_UNIT_EXCHANGE_H
#define TESTS_UNIT_EXCHANGE_H

#include "carrier.h"

#define EXCHANGE_MESSAGES    9
#define EXCHANGE_EAGER_BYTES 200
#define EXCHANGE_CHUNK_BYTES 128
#define EXCHANGE_TURNS_MAX   4000 /* enough for it to end, whatever happens */

struct exchange_shape {
	unsigned streams;
	bool checksum;
	bool late; /* the receives of one tag are posted by exchange_post_late */
};

/* The requests in flight. */
struct exchange {
	struct carrier carrier;
	struct anynet_request *sends[EXCHANGE_MESSAGES], *recvs[EXCHANGE_MESSAGES]; /* NULL: done */
	bool posted; /* all receives are */
};

extern struct exchange exchange;

/* One without faults; of several streams the bytes of the last one. */
struct exchange_record {
	uint8_t tape[CARRIER_TAPE_BYTES];
	size_t bytes;
	uint64_t bytes_back; /* of the receiver's frames */
};

/* for cmocka */
int exchange_setup(void **state);
int exchange_teardown(void **state);

/* Opens both comms and posts the receives, then the sends. */
void exchange_open(const struct exchange_shape *shape);
void exchange_post_late(void);
void exchange_send(void);
void exchange_close(void); /* may be called twice */

/* Tests all requests once; checks sizes and bytes of completed ones. Returns their number. */
size_t exchange_take_done(void);
bool exchange_all_done(void);

/* It is complete: no error, no WARN, every byte in its place and no others. */
void exchange_check(void);

void exchange_learn(const struct exchange_shape *shape, struct exchange_record *record);

#endif
