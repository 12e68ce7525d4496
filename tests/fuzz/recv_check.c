/* SPDX-License-Identifier: Apache-2.0 */
#include "recv_check.h"

#include "input.h"
#include "transports/message/recv_internal.h"

static void check_message(const struct recv_msg *msg)
{
	if (msg->state == RECV_UNSEEN) {
		must(!msg->sub && !msg->unexpected);
		return;
	}
	must(msg->received <= msg->begun && msg->begun <= msg->size);
	must(msg->state == RECV_MATCHED ? msg->sub != NULL : msg->unexpected && !msg->sub);
	must(!msg->sub || (msg->sub->owner->busy && msg->sub->owner->pending));
	must(!msg->sub || msg->size <= msg->sub->capacity);
	must(!msg->unexpected || msg->unexpected->size == msg->size);
}

void recv_check(const struct anynet_comm *base)
{
	const struct recv_comm *comm = (const struct recv_comm *)base;
	uint32_t pending = 0;

	if (comm_error(base))
		return;
	for (int i = 0; i < ANYNET_SENDS; i++)
		check_message(&comm->msgs[i]);
	for (int i = 0; i < ANYNET_REQUESTS; i++)
		pending += comm->reqs[i].busy && comm->reqs[i].pending;
	must(pending == comm_pending(base));
}
