/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of a rail whose connection has ended, and of a comm that something is wrong with. */
#include <errno.h>

#include <nccl_net/log.h>

#include "session/recovery.h"

void comm_tell_unlinked(struct anynet_comm *comm, int level)
{
	const char *direction = comm->is_send ? "send to" : "receive from";

	comm->session->unlinked_told = true;
	recorder_note(comm, NULL, ANYNET_EVENT_UNLINKED, 0, 0, comm->fault.unlinked_why);
	if (level == ANYNET_LOG_WARN)
		anynet_warn("%s peer %s pid %u dev %s: continuing over TCP, which is slower: %s", direction,
			    comm->peer.host, comm->peer.pid, comm->dev->name, comm->fault.unlinked_why);
	else if (level == ANYNET_LOG_INFO)
		anynet_info("%s peer %s pid %u dev %s: continuing over TCP: %s", direction,
			    comm->peer.host, comm->peer.pid, comm->dev->name, comm->fault.unlinked_why);
}

/* The peer has said that it closes. No error until something is asked of it again. */
static void rail_ended(struct anynet_comm *comm, struct anynet_rail *rail)
{
	bool said_bye = rail->bye;

	comm_end_rail(comm, rail);
	if (said_bye && comm_has_rails(comm))
		return;
	comm->peer_closed = true;
	recorder_note(comm, NULL, ANYNET_EVENT_PEER_CLOSED, 0, 0, NULL);
	if (comm_pending(comm))
		comm_fail(comm, NULL, -ECONNRESET,
			  "the peer closed the connection before %s all data of pending requests",
			  comm->is_send ? "receiving" : "sending");
}

int comm_rail_broke(struct anynet_comm *comm, struct anynet_rail *rail, int err)
{
	/* Its last words may still be there to be read. */
	if (!comm_state(comm) && comm->is_send && !rail->bye)
		rail->ops->receive(rail);
	if (comm_state(comm)) {
		comm_close_rails(comm);
		return comm_error(comm);
	}
	if (rail->bye || (!recovery_wanted() && !comm_pending(comm))) {
		rail_ended(comm, rail);
	} else if (recovery_wanted()) {
		comm_sever(comm, rail, err);
		recovery_rail(comm, rail, err != -ECONNRESET && err != -EPIPE && err != -EBADMSG);
	} else {
		comm_fail(comm, rail, err, "%s",
			  err == -ECONNRESET
				  ? "the peer closed the connection; if its process is gone, "
				    "look at its log first"
				  : "the connection broke");
	}
	if (comm_error(comm) || comm->peer_closed)
		comm_close_rails(comm);
	return comm_error(comm);
}

void comm_take_rest(struct anynet_comm *comm)
{
	comm->session->unread = false;
	for (unsigned i = 0; comm_is_ib(comm) && i < comm->rail_count; i++) {
		struct anynet_rail *rail = comm->rails[i];

		if (!rail || rail_stands(rail))
			continue;
		comm->session->unread |= ib_rail_take_rest(rail);
		if (comm->noted && comm_settle(comm))
			comm_close_rails(comm);
		else if (rail->bye)
			comm_rail_broke(comm, rail, -ECONNRESET);
		if (comm_error(comm) || comm->peer_closed)
			return;
	}
}

/* The receiver sees what its path does not, and says so. */
static void take_doubt(struct anynet_comm *comm, struct anynet_rail *rail)
{
	rail->doubted = false;
	if (!rail_stands(rail) || !recovery_wanted())
		return;
	if (rail_works(rail))
		comm_rail_change(comm, rail, RAIL_SUSPECT, "reported by the peer");
	rail->doubted_ms = os_now_ms();
	recovery_rail(comm, rail, true);
}

int comm_settle(struct anynet_comm *comm)
{
	comm->noted = false;
	if (*comm->fault.unlinked_why && !comm->session->unlinked_told)
		comm_tell_unlinked(comm, ANYNET_LOG_WARN);
	for (unsigned i = 0; i < comm->rail_count; i++)
		if (comm->rails[i] && comm->rails[i]->doubted)
			take_doubt(comm, comm->rails[i]);
	if (comm->fault.err)
		comm_fail(comm, comm->fault.rail, comm->fault.err, "%s", comm->fault.text);
	return comm_error(comm);
}
