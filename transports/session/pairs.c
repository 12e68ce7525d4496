/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of addresses to dial; see pairs.h. */
#include "session/pairs.h"

#include "device/links.h"
#include "path/ib/rail_link.h"

struct list {
	const struct comm_paths *paths;
	struct anynet_wire_rail *pairs;
	unsigned count;
};

static void add(struct list *list, struct anynet_wire_rail pair)
{
	const struct comm_paths *paths = list->paths;

	if (list->count == PAIRS_MAX || pair.from >= paths->own_count ||
	    pair.to >= paths->peer_count ||
	    paths->own_addrs[pair.from].family != paths->peer[pair.to].family ||
	    !paths->peer[pair.to].port)
		return;
	for (unsigned i = 0; i < list->count; i++)
		if (pairs_equal(list->pairs[i], pair))
			return;
	list->pairs[list->count++] = pair;
}

static bool is_lost(const struct list *list, unsigned from)
{
	const struct anynet_device *dev;

	if (from >= list->paths->own_count)
		return true;
	dev = list->paths->own[from];
	return link_is_down(dev) || link_port_is_down(dev);
}

static void add_but(struct list *list, struct anynet_wire_rail pair, struct anynet_wire_rail avoid)
{
	if (!pairs_equal(pair, avoid))
		add(list, pair);
}

/* All but `avoid`, of NICs that have lost their link or that have not: first those which stand in both
 * lists at the same place. */
static void add_all(struct list *list, bool lost, struct anynet_wire_rail avoid)
{
	const struct comm_paths *paths = list->paths;

	for (uint8_t i = 0; i < paths->own_count; i++)
		if (is_lost(list, i) == lost)
			add_but(list, (struct anynet_wire_rail){ i, i }, avoid);
	for (uint8_t from = 0; from < paths->own_count; from++)
		for (uint8_t to = 0; to < paths->peer_count && is_lost(list, from) == lost; to++)
			add_but(list, (struct anynet_wire_rail){ from, to }, avoid);
}

bool pairs_want_link(const struct anynet_comm *comm, const struct anynet_rail *rail)
{
	return comm_is_ib(comm) && !comm->unlinked && ib_rail_had_link(rail);
}

bool pairs_away(const struct anynet_comm *comm, const struct anynet_rail *rail)
{
	return !pairs_equal(rail->pair, rail->home) ||
	       (pairs_want_link(comm, rail) && !rail->linked);
}

/* May a link come of a dial through this NIC? */
static bool may_link(const struct list *list, unsigned from)
{
	const struct anynet_device *dev = list->paths->own[from];

	return dev->link == ANYNET_LINK_IB && !link_is_down(dev) && ib_link_is_possible(dev);
}

/* Of an IB device a rail over TCP is better off on any port; one with a link only on its own. */
static void add_home(struct list *list, const struct anynet_comm *comm,
		     const struct anynet_rail *rail)
{
	bool ib = pairs_want_link(comm, rail);

	if (ib ? may_link(list, rail->home.from) : !is_lost(list, rail->home.from))
		add(list, rail->home);
	for (uint8_t i = 0; ib && !rail->linked && i < list->paths->own_count; i++)
		if (may_link(list, i))
			add(list, (struct anynet_wire_rail){ i, i });
}

unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_rail *rail,
		    enum pairs_order order, struct anynet_wire_rail pairs[PAIRS_MAX])
{
	struct list list = { .paths = &comm->session->paths, .pairs = pairs };
	struct anynet_wire_rail avoid = PAIRS_NONE;

	if (order == PAIRS_HOME) {
		add_home(&list, comm, rail);
		return list.count;
	}
	if (rail && order == PAIRS_ELSEWHERE)
		avoid = rail->pair;
	if (rail && !is_lost(&list, rail->home.from))
		add_but(&list, rail->home, avoid);
	for (unsigned i = 0; rail && i < comm->rail_count; i++) {
		const struct anynet_rail *other = comm->rails[i];

		if (other != rail && rail_works(other))
			add_but(&list, other->pair, avoid);
	}
	add_all(&list, false, avoid);
	add(&list, avoid);
	add_all(&list, true, avoid);
	return list.count;
}
