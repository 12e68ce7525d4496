/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the pairs of addresses over which a stream can be dialled, in order. With the comm's lock. */
#ifndef ANYNET_PAIRS_H
#define ANYNET_PAIRS_H

#include "session/comm.h"

#define PAIRS_MAX  (ANYNET_HELLO_ADDRS * ANYNET_HELLO_ADDRS) /* all */
#define PAIRS_NONE ((struct anynet_wire_pair){ UINT8_MAX, UINT8_MAX })

/* What a stream is redialled for, and so the order of the pairs. */
enum redial_aim {
	REDIAL_NOTHING,
	REDIAL_AGAIN, /* it is broken or suspect: the pair that it was planned for, then all others */
	REDIAL_ELSEWHERE, /* the same, but its present pair behind all others that have a carrier */
	REDIAL_HOME, /* it works, but not on its best path (pairs_away): only better pairs that may be usable now */
};

/* Does this side have the first NIC, and the peer listen on the second one? */
bool pairs_can_dial(const struct comm_paths *paths, struct anynet_wire_pair pair);

/* Fill `pairs`, best first. `stream` NULL: for a PROBE, to which those of all streams are equal. Returns the count. */
unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_stream *stream,
		    enum redial_aim aim, struct anynet_wire_pair pairs[PAIRS_MAX]);

/* The same for a new connection, whose `paths` have the addresses of the handle: first the NICs that NCCL has asked for. */
unsigned pairs_to_connect(const struct comm_paths *paths, struct anynet_wire_pair pairs[PAIRS_MAX]);

static inline bool pairs_equal(struct anynet_wire_pair a, struct anynet_wire_pair b)
{
	return a.from == b.from && a.to == b.to;
}

/* pairs_note: the pair carries a stream of the comm. pairs_lead_to_peer: has it carried one? Then the peer's process is there.
 * At any other address of the peer another process may listen: on this host, or on a network that has the same addresses. */
void pairs_note(struct comm_paths *paths, struct anynet_wire_pair pair);
bool pairs_lead_to_peer(const struct comm_paths *paths, struct anynet_wire_pair pair);

/* Is the stream away from its best path: on a pair other than its own, without the queue pair that it should have, or with one
 * whose TCP connection has failed? */
bool pairs_away(const struct anynet_comm *comm, const struct anynet_stream *stream);

/* Should the stream have a queue pair? Only one that has had a queue pair should. */
bool pairs_want_qp(const struct anynet_comm *comm, const struct anynet_stream *stream);

#endif
