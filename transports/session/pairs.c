/* SPDX-License-Identifier: Apache-2.0 */
/* Pairs of addresses to dial; see pairs.h. */
#include "session/pairs.h"

#include "device/carrier.h"
#include "path/ib/ib_setup.h"

struct list {
	const struct comm_paths *paths;
	struct anynet_wire_pair *pairs, avoid;
	unsigned count;
};

bool pairs_can_dial(const struct comm_paths *paths, struct anynet_wire_pair pair)
{
	return pair.from < paths->own_count && pair.to < paths->peer_count &&
	       paths->peer[pair.to].port;
}

void pairs_note(struct comm_paths *paths, struct anynet_wire_pair pair)
{
	if (pair.from < ANYNET_HELLO_ADDRS && pair.to < ANYNET_HELLO_ADDRS)
		paths->carried[pair.from] |= (uint8_t)(1u << pair.to);
}

bool pairs_lead_to_peer(const struct comm_paths *paths, struct anynet_wire_pair pair)
{
	static_assert(ANYNET_HELLO_ADDRS <= 8 * sizeof(paths->carried[0]),
		      "a bit for each address");
	return pair.from < ANYNET_HELLO_ADDRS && pair.to < ANYNET_HELLO_ADDRS &&
	       paths->carried[pair.from] >> pair.to & 1;
}

static void add(struct list *list, struct anynet_wire_pair pair)
{
	if (!pairs_can_dial(list->paths, pair))
		return;
	for (unsigned i = 0; i < list->count; i++)
		if (pairs_equal(list->pairs[i], pair))
			return;
	list->pairs[list->count++] = pair;
}

static void add_but(struct list *list, struct anynet_wire_pair pair)
{
	if (!pairs_equal(pair, list->avoid))
		add(list, pair);
}

static bool is_lost(const struct list *list, unsigned from)
{
	return from >= list->paths->own_count || carrier_is_lost(list->paths->own[from]);
}

/* The kernel chooses the source address if the families differ. */
static bool is_of_one_family(const struct list *list, struct anynet_wire_pair pair)
{
	return list->paths->own_addrs[pair.from].family == list->paths->peer[pair.to].family;
}

static bool is_first_choice(const struct list *list, struct anynet_wire_pair pair)
{
	return !is_lost(list, pair.from) && is_of_one_family(list, pair);
}

/* Adds all pairs that are a first choice, or all others; NICs with the same number on both hosts first. */
static void add_all(struct list *list, bool first_choice)
{
	const struct comm_paths *paths = list->paths;
	struct anynet_wire_pair pair;

	for (int twins = 1; twins >= 0; twins--)
		for (pair.from = 0; pair.from < paths->own_count; pair.from++)
			for (pair.to = 0; pair.to < paths->peer_count; pair.to++)
				if (is_first_choice(list, pair) == first_choice &&
				    (!twins || paths->own_addrs[pair.from].device ==
						       paths->peer[pair.to].device))
					add_but(list, pair);
}

bool pairs_want_qp(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return !comm->tcp.only && stream->qp.nic;
}

bool pairs_away(const struct anynet_comm *comm, const struct anynet_stream *stream)
{
	return !pairs_equal(stream->path.pair, stream->home) || stream->path.failed ||
	       (pairs_want_qp(comm, stream) && !stream->qp.carries);
}

/* Can a dial from this NIC lead to a queue pair? */
static bool may_use_qp(const struct anynet_comm *comm, unsigned from)
{
	const struct anynet_device *dev = comm->session->paths.own[from];

	return dev->transport == ANYNET_TRANSPORT_IB && comm_may_use_nic(comm, dev) &&
	       !carrier_interface_is_down(dev) && ib_qp_is_possible(dev);
}

/* A stream that should have a queue pair but uses TCP is better off on any port; one that has a queue pair, only on its
 * own. */
static void add_home(struct list *list, const struct anynet_comm *comm,
		     const struct anynet_stream *stream)
{
	bool ib = pairs_want_qp(comm, stream);

	if (ib ? may_use_qp(comm, stream->home.from) : !is_lost(list, stream->home.from))
		add(list, stream->home);
	for (uint8_t i = 0; ib && !stream->qp.carries && i < list->paths->own_count; i++)
		if (may_use_qp(comm, i))
			add(list, (struct anynet_wire_pair){ i, i });
}

static void add_streams(struct list *list, const struct anynet_comm *comm,
			const struct anynet_stream *stream)
{
	if (stream && !is_lost(list, stream->home.from))
		add_but(list, stream->home);
	for (unsigned i = 0; i < comm->stream_count; i++) {
		const struct anynet_stream *other = comm->streams[i];

		if (!stream && other)
			add(list, other->home);
		else if (other != stream && stream_works(other))
			add_but(list, other->path.pair);
	}
}

unsigned pairs_list(const struct anynet_comm *comm, const struct anynet_stream *stream,
		    enum redial_aim aim, struct anynet_wire_pair pairs[PAIRS_MAX])
{
	struct list list = { .paths = &comm->session->paths, .pairs = pairs, .avoid = PAIRS_NONE };

	if (aim == REDIAL_HOME) {
		add_home(&list, comm, stream);
		return list.count;
	}
	if (stream && aim == REDIAL_ELSEWHERE)
		list.avoid = stream->path.pair;
	add_streams(&list, comm, stream);
	add_all(&list, true);
	add(&list, list.avoid);
	add_all(&list, false);
	return list.count;
}

unsigned pairs_to_connect(const struct comm_paths *paths, struct anynet_wire_pair pairs[PAIRS_MAX])
{
	struct list list = { .paths = paths, .pairs = pairs, .avoid = PAIRS_NONE };
	struct anynet_wire_pair asked = { 0, 0 };

	if (is_first_choice(&list, asked))
		add(&list, asked);
	add_all(&list, true);
	add_all(&list, false);
	return list.count;
}
