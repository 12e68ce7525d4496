/* SPDX-License-Identifier: Apache-2.0 */
/* Who meets whom in which round; see rounds.h. */
#include "rounds.h"

/* The circle method: one seat stays, all others move on by one each round. With an odd number of hosts
 * the seat that stays is empty. */
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
	bool swap = !pair && round % 2; /* each host is asked as often as it asks, but for one */

	*a = swap ? other : one;
	*b = swap ? one : other;
	return one < hosts && other < hosts;
}
