/* SPDX-License-Identifier: Apache-2.0 */
/* A sender whose receiver is the test, which acknowledges messages by their numbers. */
#ifndef TESTS_UNIT_MESSAGE_ACKS_H
#define TESTS_UNIT_MESSAGE_ACKS_H

#include "unit/pair.h"

extern struct pair pair;
extern uint8_t data[PAIR_LARGE];

/* Reads what has arrived and records the slots. */
void take_frames(void);

/* Acknowledges messages [first, end). */
void put_ack(unsigned stream, uint32_t first, uint32_t end);

#endif
