/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of addresses to dial; see pairs.h. */
#include "session/pairs.h"

#include "device/carrier.h"
#include "path/ib/ib_setup.h"

struct list {
	const struct anynet_comm *comm;
	struct anynet_wire_pair *pairs;
	unsigned count;
};

bool pairs_can_dial(const struct comm_paths *paths, struct anynet_wire_pair pair)
{
	return pair.from < paths->own_count && pair.to < paths->peer_count &&
	       paths->own_addrs[pair.from].family == paths->peer[pair.to].family &&
	       paths->peer[pair.to].port;
}

static void add(struct list *list, struct anynet_wire_pair pair)
{
	if (list->count == PAIRS_MAX || !pairs_can_dial(&list->comm->session->paths, pair))
		return;
	for (unsigned i = 0; i < list->count; i++)
		if (pairs_equal(list->pairs[i], pair))
			return;
	list->pairs[list->count++] = pair;
}

static bool is_lost(const struct list *list, unsigned from)
{
	const struct comm_paths *paths = &list->comm->session->paths;

	return from >= paths->own_count || carrier_is_lost(paths->own[from]);
}

static void add_but(struct list *list, struct anynet_wire_pair pair, struct anynet_wire_pair avoid)
{
	if (!pairs_equal(pair, avoid))
		add(list, pair);
}

/* Adds all pairs except `avoid` from NICs that have lost their carrier (`lost`) or that have it. Pairs with the same
 * index on both sides come first. */
static void add_all(struct list *list, bool lost, struct anynet_wire_pair avoid)
{
	const struct comm_paths *paths = &list->comm->session->paths;

	for (uint8_t i = 0; i < paths->own_count; i++)
		if (is_lost(list, i) == lost)
			add_but(list, (struct anynet_wire_pair){ i, i }, avoid);
	for (uint8_t from = 0; from < paths->own_count; from++)
		for (uint8_t to = 0; to < paths->peer_count && is_lost(list, from) == lost; to++)
			add_but(list, (struct anynet_wire_pair){ from, to }, avoid);
}

bool pairs_want_qp(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return comm_is_ib(comm) && !comm->tcp.only && ib_stream_had_qp(stream);
}

bool pairs_away(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return !pairs_equal(stream->path.pair, stream->home) ||
	       (pairs_want_qp(comm, stream) && !stream->qp.carries);
}

/* Can a dial from this NIC lead to a queue pair? */
static bool may_use_qp(const struct list *list, unsigned from)
{
	const struct anynet_device *dev = list->comm->session->paths.own[from];

	return dev->transport == ANYNET_TRANSPORT_IB && comm_may_use_nic(list->comm, dev) &&
	       !carrier_is_down(dev) && ib_qp_is_possible(dev);
}

/* A stream that should have a queue pair but uses TCP is better off on any port; one that has a queue pair, only on its
 * own. */
static void add_home(struct list *list, const struct anynet_stream *stream)
{
	bool ib = pairs_want_qp(list->comm, stream);

	if (ib ? may_use_qp(list, stream->home.from) : !is_lost(list, stream->home.from))
		add(list, stream->home);
	for (uint8_t i = 0; ib && !stream->qp.carries && i < list->comm->session->paths.own_count; i++)
		if (may_use_qp(list, i))
			add(list, (struct anynet_wire_pair){ i, i });
}

unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_stream *stream,
		    enum pairs_order order, struct anynet_wire_pair pairs[PAIRS_MAX])
{
	struct list list = { .comm = comm, .pairs = pairs };
	struct anynet_wire_pair avoid = PAIRS_NONE;

	if (order == PAIRS_HOME) {
		add_home(&list, stream);
		return list.count;
	}
	if (stream && order == PAIRS_ELSEWHERE)
		avoid = stream->path.pair;
	if (stream && !is_lost(&list, stream->home.from))
		add_but(&list, stream->home, avoid);
	for (unsigned i = 0; i < comm->stream_count; i++) {
		const struct anynet_stream *other = comm->streams[i];

		if (!stream && other)
			add(&list, other->home);
		else if (other != stream && stream_works(other))
			add_but(&list, other->path.pair, avoid);
	}
	add_all(&list, false, avoid);
	add(&list, avoid);
	add_all(&list, true, avoid);
	return list.count;
}
