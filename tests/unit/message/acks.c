/* SPDX-License-Identifier: Apache-2.0 */
#include "acks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MESSAGES 1024 /* maximum in a test */

struct pair pair;
uint8_t data[PAIR_LARGE];
static uint16_t slots[MESSAGES]; /* numbers of the sender's messages, from their frames */

void take_frames(void)
{
	static uint8_t away[PAIR_LARGE];
	struct anynet_wire_frame frame;

	for (unsigned i = 0; i < pair.streams; i++) {
		while (frame_get(pair.fds[i], &frame, away, sizeof(away))) {
			assert_true(frame.seq < MESSAGES && frame.slot < ANYNET_WIRE_SLOTS);
			slots[frame.seq] = frame.slot;
		}
	}
}

void put_ack(unsigned stream, uint32_t first, uint32_t end)
{
	take_frames();
	frame_put_ack(pair.fds[stream], slots + first, end - first);
}
