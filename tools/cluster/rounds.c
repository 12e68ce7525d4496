/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of pairs; see rounds.h. */
#include "rounds.h"

/*
 * The circle method: one seat is fixed, and all others move on by one in each round. With an odd number of hosts the
 * fixed seat is empty.
 */
static size_t seats(size_t hosts)
{
	return hosts + hosts % 2;
}

size_t rounds_count(size_t hosts)
{
	return hosts < 2 ? 0 : seats(hosts) - 1;
}

size_t rounds_pairs(size_t hosts)
{
	return hosts < 2 ? 0 : seats(hosts) / 2;
}

bool rounds_pair(size_t hosts, size_t round, size_t pair, size_t *a, size_t *b)
{
	size_t circle = seats(hosts) - 1;
	size_t one = (round + pair) % circle;
	size_t other = pair ? (round + circle - pair) % circle : circle;
	bool swap = !pair && round % 2; /* balances the roles of client and server */

	*a = swap ? other : one;
	*b = swap ? one : other;
	return one < hosts && other < hosts;
}
