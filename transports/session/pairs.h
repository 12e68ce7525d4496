/* SPDX-License-Identifier: Apache-2.0 */
/* Over which pairs of addresses a stream may be dialled again, and in which order. With the comm's lock. */
#ifndef ANYNET_PAIRS_H
#define ANYNET_PAIRS_H

#include "session/comm.h"

#define PAIRS_MAX  24
#define PAIRS_NONE ((struct anynet_wire_pair){ UINT8_MAX, UINT8_MAX })

enum pairs_order {
	PAIRS_OWN_FIRST, /* the pair that the stream was planned for, then all others */
	PAIRS_ELSEWHERE, /* the same, but the pair that it joins now last */
	PAIRS_HOME, /* the stream works: only where it would be better off, if that is worth a try now */
};

/* Fill `pairs`, best first. `stream`: NULL, any pair will do. Returns the count. */
unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_stream *stream,
		    enum pairs_order order, struct anynet_wire_pair pairs[PAIRS_MAX]);

static inline bool pairs_equal(struct anynet_wire_pair a, struct anynet_wire_pair b)
{
	return a.from == b.from && a.to == b.to;
}

/* Is a stream that works not where it belongs: on another pair than its own, or without a queue pair? */
bool pairs_away(const struct anynet_comm *comm, const struct anynet_stream *stream);

/* Is it one that a queue pair is to be made for? One that never had any is not. */
bool pairs_want_qp(const struct anynet_comm *comm, const struct anynet_stream *stream);

#endif
