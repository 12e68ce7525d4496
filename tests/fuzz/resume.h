/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the two halves of fuzz_resume: a comm on streams whose other ends are the input. */
#ifndef TESTS_FUZZ_RESUME_H
#define TESTS_FUZZ_RESUME_H

#include "peer.h"
#include "unit/local_net.h"

#define STEPS_MAX  400
#define ROUNDS_MAX 3000 /* for everything to arrive in the end */
#define TAGS       3
#define BYTES_MAX  40000 /* of a message */

/* of the first byte */
#define SENDS     0x01 /* the comm is a send comm */
#define CHECKSUMS 0x02
#define WILD      0x10 /* the peer may send anything … */
#define LIES      0x20 /* … and name any position */
#define STREAMS_AT 2    /* the bits from there: streams - 1 */

static inline unsigned streams_wanted(uint8_t order)
{
	return 1 + (order >> STREAMS_AT) % STREAMS_MAX;
}

/* Bytes that the comm's sockets take before they are "full". */
extern size_t take_budget;

/* If not 0: the next call takes all but that many bytes, and later ones none. */
extern size_t take_short;

/* The budget is no event of the kernel: make the comm try again. */
void take_again(struct anynet_comm *comm);

/* Fills in the bytes of message `seq` from `offset` on. */
const uint8_t *pattern(uint32_t seq, size_t offset);

/* A size that is likely to be interesting, at most BYTES_MAX. */
uint32_t choose_size(struct input *in);

/* The two halves. `order` is the first byte. */
void resume_receiving(struct input *in, uint8_t order);
void resume_sending(struct input *in, uint8_t order);

#endif
