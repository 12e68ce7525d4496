/* SPDX-License-Identifier: Apache-2.0 */
/* A comm with queue pairs, whose peer is the test. */
#ifndef TESTS_UNIT_PATH_IB_IB_COMM_H
#define TESTS_UNIT_PATH_IB_IB_COMM_H

#include "unit/ib_ends.h"

#define LARGE     4096
#define PLACE     0x500000000000u /* CTS of message number 0 from the receiver; the others follow */
#define PLACE_KEY 0x55

extern struct pair pair;

/* For each test; what it has opened in `pair` is closed. */
int ib_comm_setup(void **state);
int ib_comm_teardown(void **state);

/* --- of a send comm --- */

/* Everything posted there is done; the comm has not polled yet. */
void arrive(unsigned stream);

/* The receiver's place for message `seq`. */
struct anynet_wire_cts cts_of(uint32_t seq, uint64_t bytes);

/* The peer writes this to the CTS ring, for message `seq`. */
void put_cts(unsigned stream, uint32_t seq, const struct anynet_wire_cts *place);
void cts(unsigned stream, uint32_t seq, uint64_t bytes);

/* The stream continues from this position of the receiver. `qp`: by it; NULL = over TCP. */
void resume(struct anynet_stream *stream, uint64_t frames, struct ib_qp *qp);

/* --- of a receive comm --- */

/* All its streams have queue pairs. */
void open_recv(unsigned streams);

/* A small message arrives over that queue pair. */
void bring(unsigned stream, uint32_t seq, uint32_t bytes);

#endif
