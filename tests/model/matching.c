/* SPDX-License-Identifier: Apache-2.0 */
/* The receiver of the model: matching messages to posted buffers, as in recv_match.c. */
#include "model.h"

#include <stddef.h>

/* Number of the first `count` tags that are this one. */
static unsigned rank_in_tag(const struct model *m, unsigned message)
{
	unsigned rank = 0;

	for (unsigned i = 0; i < message; i++)
		rank += kind_of(m, i)->tag == kind_of(m, message)->tag;
	return rank;
}

static unsigned buffer_rank_in_tag(const struct model *m, unsigned buffer)
{
	unsigned rank = 0;

	for (unsigned i = 0; i < buffer; i++)
		rank += m->cfg->receive_tags[i] == m->cfg->receive_tags[buffer];
	return rank;
}

static void bind_buffer(struct model *m, unsigned message, unsigned buffer)
{
	if (m->s.matched >> buffer & 1)
		model_fault(m, "a buffer is given to two messages");
	if (m->cfg->receive_tags[buffer] != kind_of(m, message)->tag ||
	    buffer_rank_in_tag(m, buffer) != rank_in_tag(m, message))
		model_fault(m, "the k-th message of a tag is not in the k-th buffer");
	m->s.matched |= (uint8_t)(1u << buffer);
	m->s.incoming[message].bound = 1;
}

/* The first posted buffer of a tag that has no message, or NONE. */
static unsigned unmatched_buffer(const struct model *m, unsigned tag)
{
	for (unsigned i = 0; i < m->s.posted_receives; i++)
		if (m->cfg->receive_tags[i] == tag && !(m->s.matched >> i & 1))
			return i;
	return NONE;
}

/* A posted buffer waits for a message or its rest. */
static bool some_unfilled(const struct model *m)
{
	unsigned filled = 0;

	for (unsigned i = 0; i < m->cfg->count; i++)
		filled += m->s.incoming[i].complete && m->s.incoming[i].bound;
	return filled < m->s.posted_receives;
}

static bool frame_is_multi(const struct model *m, unsigned message)
{
	for (unsigned i = 0; i < message; i++)
		if (kind_of(m, i)->tag != kind_of(m, i + 1)->tag)
			return true;
	return false;
}

bool match_announce(struct model *m, struct slot_state *slot, unsigned message, bool rts)
{
	bool plain = m->s.plain && !frame_is_multi(m, message) &&
		     (!m->s.posted_receives || kind_of(m, message)->tag == m->cfg->receive_tags[0]);
	unsigned buffer = plain ? message : unmatched_buffer(m, kind_of(m, message)->tag);

	if (plain && message >= m->s.posted_receives)
		return false;
	if (!plain && m->s.seen != (1u << message) - 1)
		return false;
	if (buffer == NONE && !rts && !some_unfilled(m))
		return false;
	if (!plain)
		m->s.plain = 0;
	m->s.seen |= (uint8_t)(1u << message);
	*slot = (struct slot_state){ .message = (uint8_t)message,
				     .rank = RANK_WAITING,
				     .asked = rts };
	if (buffer != NONE) {
		bind_buffer(m, message, buffer);
		slot->rank = RANK_MATCHED;
	}
	return true;
}

struct slot_state *match_slot(struct model *m, unsigned message, bool rts)
{
	struct slot_state *slot = &m->s.slots[m->s.sends[message].slot];
	bool vacant = slot->rank == RANK_UNSEEN || slot->rank >= RANK_COMPLETE;

	if (vacant ? !(m->s.seen >> message & 1)
		   : slot->message == message && !rts &&
			     (!slot->asked || slot->rank == RANK_CLEARED))
		return slot;
	model_fault(m, vacant ? "a frame of a message that was complete"
			      : "a frame that does not fit what is in its slot");
	return NULL;
}

/* irecv */
bool recv_post(struct model *m, unsigned stream, unsigned arg)
{
	unsigned buffer = m->s.posted_receives;

	(void)stream, (void)arg;
	if (buffer == m->cfg->count)
		return false;
	m->s.posted_receives++;
	if (m->cfg->receive_tags[buffer] != m->cfg->receive_tags[0])
		m->s.plain = 0;
	for (unsigned i = 0; i < m->cfg->count && !m->s.plain; i++) {
		struct slot_state *slot = &m->s.slots[m->s.sends[i].slot];

		if (!(m->s.seen >> i & 1) || m->s.incoming[i].bound)
			continue;
		buffer = unmatched_buffer(m, kind_of(m, i)->tag);
		if (buffer == NONE)
			continue;
		bind_buffer(m, i, buffer);
		if (slot->message == i && slot->rank == RANK_WAITING)
			slot->rank = RANK_MATCHED;
	}
	return true;
}
