/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's calls that open and close (nccl_net/comm.h). They register a comm with the threads that serve it in
 * between. */

#include "path/ib/ib_setup.h"
#include "service/background.h"
#include "service/io_threads.h"
#include "session/connect.h"
#include "session/listen.h"
#include "session/registry.h"

#define DRAIN_ALONE_MS 1000

/* Let the background thread and the I/O threads serve an open comm as well; from now on use it only with its lock. */
static void look_after(struct anynet_comm *comm)
{
	background_rouse();
	io_threads_add(comm);
}

int anynet_listen(const struct anynet_device *dev, const void *owner, void *handle,
		  struct anynet_listener **listener)
{
	int ret = listen_start(dev, owner, handle, listener);

	if (!ret)
		background_rouse(); /* it answers connectors, however late accept is called */
	return ret;
}

int anynet_connect(const struct anynet_device *dev, const struct anynet_connect_options *opts,
		   void *handle, struct anynet_comm **comm)
{
	int ret = connect_step(dev, opts, handle, comm);

	if (*comm)
		look_after(*comm);
	else if (!ret)
		background_rouse(); /* it answers the peer's PROBE */
	return ret;
}

int anynet_accept(struct anynet_listener *listener, struct anynet_comm **comm)
{
	int ret = listen_accept(listener, comm);

	if (*comm)
		look_after(*comm);
	return ret;
}

void anynet_net_trim(const void *owner)
{
	connect_trim(owner);
	listen_drop_half_built(owner);
	listen_trim();
	if (background_runs())
		background_rouse(); /* the queue pairs of what has been freed are to be destroyed */
	else
		ib_chores_finish();
}

/* Drain a closed comm without a background thread, for up to DRAIN_ALONE_MS. */
static void drain_alone(struct anynet_comm *comm)
{
	bool over = false;

	for (unsigned ms = 0; ms < DRAIN_ALONE_MS && !over; ms++) {
		comm_enter(comm);
		comm_turn(comm);
		over = drain_over(comm);
		comm_leave(comm);
		if (!over)
			os_sleep_us(1000);
	}
}

void anynet_close(struct anynet_comm *comm)
{
	bool drains, left;

	if (!comm)
		return;
	io_threads_remove(comm);
	comm_enter(comm);
	recorder_note(comm, NULL, ANYNET_EVENT_CLOSED, 0, comm_pending(comm), NULL);
	drains = drain_start(comm);
	left = drains && comm->session->slot >= 0 && background_runs();
	/* Cancel requests while the comm is in the registry, where deregMr in another thread finds it. */
	if (comm_pending(comm)) {
		comm_close_streams(comm);
		comm_cancel(comm);
	}
	/* After comm_leave the background thread may destroy the comm. */
	atomic_store(&comm->session->closing, left);
	comm_leave(comm);
	if (left) {
		background_wake();
	} else {
		if (drains)
			drain_alone(comm);
		registry_remove(comm);
		listen_destroy_comm(comm);
		background_rouse(); /* its queue pairs are to be destroyed, and it may sleep by now */
	}
	connect_trim(NULL);
	listen_trim();
}
