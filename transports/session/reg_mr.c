/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's regMr and deregMr. NICs need registered memory, TCP does not. A comm whose memory cannot be registered uses
 * TCP. */
#include <errno.h>
#include <stdlib.h>

#include <nccl_net/log.h>

#include "session/registry.h"

/* NCCL uses GPUDirect if a topology file or another net (GIN) says so, whatever this device reports. Logged once per
 * process, because it is the same for every comm. */
static ANYNET_COLD void note_copied(const struct anynet_comm *comm)
{
	static atomic_flag noted = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&noted))
		return;
	if (comm_is_ib(comm))
		anynet_warn(
			"dev %s cannot access GPU memory, but NCCL uses GPUDirect on it: the "
			"data is copied through host memory and sent over TCP, which is slower; "
			"with NCCL_NET_GDR_LEVEL=LOC NCCL copies it and RDMA carries it",
			comm->dev->name);
	else
		anynet_info(
			"dev %s: NCCL uses GPUDirect on it: GPU memory is copied through host memory",
			comm->dev->name);
}

/* Breaks the streams that use queue pairs: they continue over TCP. */
static void leave_qps(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->stream_count && !comm_error(comm); i++) {
		struct anynet_stream *stream = comm->streams[i];

		if (stream_stands(stream) && stream->qp.carries)
			comm_stream_broke(comm, stream, -ENOMEM);
	}
}

/* Registers on the comm's own NICs; other NICs follow when they are first used. `entered`: the caller has the comm's
 * lock. 0, even if the comm has become tcp_only; or -ENOMEM: the NIC cannot register this GPU memory, and NCCL does
 * without. */
static int register_on_nic(struct anynet_comm *comm, struct anynet_mr *mr, bool entered)
{
	char why[ANYNET_REASON_BYTES];
	int ret;

	if (mr->way == MR_COPIED)
		note_copied(comm);
	if (!comm_is_ib(comm) || comm->tcp.only)
		return 0;
	ret = ib_memory_register(mr, comm->dev, !comm->is_send && !anynet_net.cfg->flush_disable,
				 why, sizeof(why));
	if (!ret || ret == -ENODEV) { /* no port now: registered at the next use */
		if (mr->gpu && mr->range.bytes && !ret)
			comm->session->gpu_direct = true;
		return 0;
	}
	/* NCCL registers its own buffers first. Later ones are the user's, and may be larger than what the NIC can
	 * reach of the GPU. After this error NCCL copies them to its own. */
	if (mr->gpu && comm->session->gpu_direct) {
		anynet_info("dev %s: %s; NCCL copies this memory to its own", comm->dev->name, why);
		return -ENOMEM;
	}
	if (!entered)
		comm_enter(comm);
	if (comm_use_tcp(comm, why)) /* no second warning for what concerns all comms */
		comm_tell_tcp_only(comm, mr->way == MR_COPIED ? ANYNET_LOG_NONE
					 : ret == -EALREADY   ? ANYNET_LOG_INFO
							      : ANYNET_LOG_WARN);
	leave_qps(comm);
	if (!entered)
		comm_leave(comm);
	return 0;
}

static enum mr_way way_of(const struct anynet_device *dev, int type)
{
	if (type == ANYNET_PTR_HOST || dev->ptr_support & ANYNET_PTR_CUDA)
		return MR_BY_ADDRESS;
	return dev->ptr_support & ANYNET_PTR_DMABUF ? MR_BY_DMABUF : MR_COPIED;
}

static struct anynet_mr *make(const struct anynet_comm *comm, void *addr, size_t bytes, int type)
{
	struct anynet_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->home = comm;
	mr->range.addr = addr;
	mr->range.bytes = bytes;
	mr->way = way_of(comm->dev, type);
	mr->dmabuf.fd = -1;
	return mr;
}

/* Finds the memory's GPU. Needed even if the NIC can reach it: the comm may have to use TCP later. */
static int find_gpu(struct anynet_comm *comm, struct anynet_mr *mr, int type)
{
	char why[ANYNET_REASON_BYTES];
	int ret;

	if (type == ANYNET_PTR_HOST)
		return 0;
	ret = gpu_of(mr->range.addr, &mr->gpu, why, sizeof(why));
	if (ret)
		anynet_warn("%s peer %s dev %s: cannot register GPU memory: %s; NCCL gets an error",
			    comm_direction(comm), comm->peer.host, comm->dev->name, why);
	else
		mr->range.id = gpu_memory_id(mr->range.addr, mr->range.bytes);
	return ret;
}

static int register_made(struct anynet_comm *comm, struct anynet_mr *mr, int type,
			 struct anynet_mr **out)
{
	int ret = mr ? find_gpu(comm, mr, type) : -ENOMEM;

	if (!ret)
		ret = register_on_nic(comm, mr, false);
	if (ret && mr)
		mr_return(mr); /* some ports may have registered it */
	else if (!ret)
		*out = mr;
	return ret;
}

int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  const struct anynet_dmabuf *dmabuf, struct anynet_mr **out)
{
	struct anynet_mr *mr;
	int ret;

	*out = NULL;
	if (type != ANYNET_PTR_HOST && type != ANYNET_PTR_CUDA)
		return -EOPNOTSUPP;
	mr = make(comm, addr, bytes, type);
	if (mr && dmabuf && type == ANYNET_PTR_CUDA && comm->dev->ptr_support & ANYNET_PTR_DMABUF) {
		mr->way = MR_BY_DMABUF;
		mr->dmabuf = *dmabuf;
	}
	ret = register_made(comm, mr, type, out);
	if (!ret)
		mr->dmabuf.fd = -1; /* NCCL closes it */
	return ret;
}

int comm_borrow_mr(struct anynet_comm *comm, const void *addr, size_t bytes, struct anynet_mr **mr)
{
	*mr = make(comm, (void *)(uintptr_t)addr, bytes, ANYNET_PTR_HOST);
	if (!*mr)
		return -ENOMEM;
	/* A unique id, so that no port's cache shares the registration: it may outlive the memory, until the request or
	 * the comm ends. */
	(*mr)->range.id = memory_id_unique();
	(*mr)->borrowed = true;
	register_on_nic(comm, *mr, true); /* no error for host memory */
	LIST_INSERT_HEAD(&comm->session->borrowed, *mr, among);
	return comm_error(comm);
}

bool comm_cancel(struct anynet_comm *comm)
{
	int none = 0;
	bool first = atomic_compare_exchange_strong(&comm->error, &none, -ECANCELED);

	comm_close_streams(comm);
	return first;
}

static void let_go(struct anynet_comm *comm, void *arg)
{
	const struct anynet_mr *mr = arg;

	if (message_ops(comm)->uses(comm, mr) && comm_cancel(comm)) {
		recorder_note(comm, NULL, ANYNET_EVENT_CANCELLED, -ECANCELED, 0, NULL);
		anynet_info("%s peer %s dev %s: memory deregistered with requests in flight; they "
			    "are cancelled",
			    comm_direction(comm), comm->peer.host, comm->dev->name);
	}
}

/* With requests in flight NCCL is aborting: their comms are cancelled, so that nothing accesses the memory any more.
 * Other comms than this one may use the memory, in other threads, and the comm that it was registered on may be
 * gone. */
void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr)
{
	bool shared, used;

	if (!mr)
		return;
	shared = atomic_load_explicit(&mr->shared, memory_order_acquire);
	used = atomic_load_explicit(&mr->in_flight, memory_order_acquire);
	if (shared || (used && mr->home != comm)) {
		registry_each_entered(let_go, mr);
	} else if (used) {
		comm_enter(comm);
		let_go(comm, mr);
		comm_leave(comm);
	}
	mr_return(mr);
}
