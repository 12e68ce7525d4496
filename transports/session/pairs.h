/* SPDX-License-Identifier: Apache-2.0 */
/* Over which pairs of addresses a rail may be dialled again, and in which order. With the comm's lock. */
#ifndef ANYNET_PAIRS_H
#define ANYNET_PAIRS_H

#include "session/comm.h"

#define PAIRS_MAX  24
#define PAIRS_NONE ((struct anynet_wire_rail){ UINT8_MAX, UINT8_MAX })

enum pairs_order {
	PAIRS_OWN_FIRST, /* the pair that the rail was planned for, then all others */
	PAIRS_ELSEWHERE, /* the same, but the pair that it joins now last */
	PAIRS_HOME, /* the rail works: only where it would be better off, if that is worth a try now */
};

/* Fill `pairs`, best first. `rail`: NULL, any pair will do. Returns the count. */
unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_rail *rail,
		    enum pairs_order order, struct anynet_wire_rail pairs[PAIRS_MAX]);

static inline bool pairs_equal(struct anynet_wire_rail a, struct anynet_wire_rail b)
{
	return a.from == b.from && a.to == b.to;
}

/* Is a rail that works not where it belongs: on another pair than its own, or without a link? */
bool pairs_away(const struct anynet_comm *comm, const struct anynet_rail *rail);

/* Is it one that a link is to be made for? One that never had any is not. */
bool pairs_want_link(const struct anynet_comm *comm, const struct anynet_rail *rail);

#endif
