/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's calls on an open comm: send, receive, flush, test (nccl_net/comm.h). */
#include <errno.h>

#include "session/comm.h"
#include "session/listen.h"

/* NCCL uses a comm whose peer has closed: fails it. */
static ANYNET_COLD int refuse(struct anynet_comm *comm)
{
	comm_fail(comm, NULL, -ECONNRESET,
		  comm->session->peer_lost ? "the peer was lost while the connection was idle"
				  : "the peer closed the connection");
	return -ECONNRESET;
}

/* May NCCL post a request? 0 or the comm's error. */
static int check(struct anynet_comm *comm)
{
	int ret = comm_state(comm);

	if (anynet_unlikely(!ret && comm->peer_closed))
		return refuse(comm);
	return ret;
}

/* Settles what a call below may have noted. Returns the comm's error, or else `ret`, the result of that call. A comm that
 * has failed closes its streams, so that the peer learns of it. */
static int settled(struct anynet_comm *comm, int ret)
{
	int err = comm_state(comm);

	if (anynet_likely(!err))
		return ret;
	comm_close_streams(comm);
	return err;
}

/* Receives acknowledgements, which free slots and room for copies. */
static ANYNET_COLD int make_room(struct anynet_comm *comm)
{
	int ret = comm_turn(comm);

	return ret ? ret : check(comm);
}

/* Registers a send buffer that NCCL has not registered, for a NIC to read. */
static ANYNET_COLD int borrow(struct anynet_comm *comm, struct anynet_send *send)
{
	int ret = comm_borrow_mr(comm, send->data, send->bytes, &send->mr);

	return ret ? ret : check(comm);
}

static int isend(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req)
{
	struct anynet_send registered;
	int ret = check(comm);

	if (anynet_unlikely(!ret && !send_has_room(comm, send->bytes)))
		ret = make_room(comm);
	if (anynet_unlikely(ret))
		return ret;
	ret = send_post(comm, send, req);
	if (anynet_unlikely(ret == -EADDRNOTAVAIL)) {
		registered = *send;
		ret = borrow(comm, &registered);
		if (!ret)
			ret = send_post(comm, &registered, req);
	}
	/* The first message leaves at once; those behind it leave together at the next test. */
	if (ret > 0)
		ret = comm_transmit(comm);
	else if (anynet_unlikely(ret < 0))
		ret = ret == -EAGAIN ? 0 : settled(comm, ret);
	if (anynet_unlikely(ret))
		*req = NULL;
	return ret;
}

int anynet_isend(struct anynet_comm *comm, const struct anynet_send *send, struct anynet_request **req)
{
	int ret;

	*req = NULL;
	if (anynet_unlikely(!comm->is_send || send->bytes > ANYNET_MESSAGE_MAX))
		return -EINVAL;
	if (anynet_unlikely(!comm_try_enter(comm)))
		return comm_error(comm);
	ret = isend(comm, send, req);
	comm_leave(comm);
	return ret;
}

/* The same for receive buffers, for a NIC to write. On error nothing that it has registered is left. */
static ANYNET_COLD int borrow_missing(struct anynet_comm *comm, const struct anynet_recv *recv,
				      void **mrs)
{
	struct anynet_mr *mr;
	int ret = 0, i;

	for (i = 0; i < recv->n && !ret; i++) {
		mr = recv->mrs ? recv->mrs[i] : NULL;
		if (!mr && recv->bytes[i])
			ret = comm_borrow_mr(comm, recv->data[i], recv->bytes[i], &mr);
		mrs[i] = mr;
	}
	if (!ret)
		ret = comm_state(comm);
	while (ret && i--) {
		mr = mrs[i];
		if (mr && mr->borrowed)
			mr_return(mr);
	}
	return ret;
}

static int irecv(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req)
{
	void *mrs[ANYNET_RECVS_MAX];
	struct anynet_recv registered;
	int ret = comm_state(comm);

	if (anynet_unlikely(ret))
		return ret;
	ret = recv_post(comm, recv, req);
	if (anynet_unlikely(ret == -EADDRNOTAVAIL)) {
		ret = borrow_missing(comm, recv, mrs);
		if (ret)
			return ret;
		registered = *recv;
		registered.mrs = mrs;
		ret = recv_post(comm, &registered, req);
	}
	/* Unexpected messages may be left of a peer that has closed. They have filled the receive by now, or nothing will. */
	if (anynet_unlikely(comm->peer_closed) && !ret && comm_pending(comm)) {
		*req = NULL;
		return refuse(comm);
	}
	if (anynet_likely(!ret) || ret == -EAGAIN)
		return 0;
	return settled(comm, ret);
}

int anynet_irecv(struct anynet_comm *comm, const struct anynet_recv *recv, struct anynet_request **req)
{
	int ret;

	*req = NULL;
	if (anynet_unlikely(comm->is_send || recv->n < 1 || recv->n > ANYNET_RECVS_MAX))
		return -EINVAL;
	if (anynet_unlikely(!comm_try_enter(comm)))
		return comm_error(comm);
	ret = irecv(comm, recv, req);
	comm_leave(comm);
	return ret;
}

int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, struct anynet_mr *const *mrs,
		  struct anynet_request **req)
{
	int ret;

	*req = NULL;
	if (comm->is_send)
		return -EINVAL;
	comm_enter(comm);
	ret = comm_state(comm);
	if (!ret)
		ret = settled(comm, recv_flush(comm, n, data, mrs, req));
	comm_leave(comm);
	return ret;
}

static bool is_done(const struct anynet_request *req)
{
	return atomic_load_explicit(&req->done, memory_order_acquire);
}

static int test_send(struct anynet_comm *comm, struct anynet_request *req, int *done, int *sizes)
{
	int ret;

	if (!is_done(req)) {
		ret = comm_transmit(comm);
		if (!ret && !is_done(req))
			ret = comm_turn(comm);
		if (ret || !is_done(req))
			return ret;
	}
	send_report(req, sizes);
	*done = 1;
	return 0;
}

static int test_receive(struct anynet_comm *comm, struct anynet_request *req, int *done, int *sizes)
{
	int ret;

	if (!is_done(req)) {
		if (recv_has_to_tell(comm) && (ret = comm_transmit(comm)))
			return ret;
		ret = comm_turn(comm);
		if (ret || !is_done(req))
			return ret;
	}
	*done = 1;
	/* Nothing is posted any more, so NCCL may not call again soon: send what the sender waits for. */
	if (recv_report(req, sizes))
		comm_transmit(comm);
	return 0;
}

static ANYNET_COLD int test_flush(struct anynet_comm *comm, struct anynet_request *req, int *done)
{
	int ret = settled(comm, recv_flush_done(req));

	*done = ret > 0;
	return ret < 0 ? ret : 0;
}

int anynet_test(struct anynet_request *req, int *done, int *sizes)
{
	struct anynet_comm *comm = req->comm;
	bool answer;
	int ret;

	*done = 0;
	if (anynet_unlikely(!comm_try_enter(comm)))
		return comm_error(comm);
	ret = comm_state(comm);
	if (anynet_unlikely(ret))
		;
	else if (comm->is_send)
		ret = test_send(comm, req, done, sizes);
	else if (anynet_unlikely(req->is_flush))
		ret = test_flush(comm, req, done);
	else
		ret = test_receive(comm, req, done, sizes);
	answer = !comm->is_send && comm->down;
	comm_leave(comm);
	/* The sender redials: answer it now, the background thread may have to wait for a core. */
	if (anynet_unlikely(answer))
		listen_turn();
	return ret;
}
