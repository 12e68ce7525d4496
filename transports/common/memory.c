/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory, as NCCL sees it. TCP needs no registration, NICs do; what cannot be registered goes
 * over TCP. */
#include <errno.h>
#include <stdlib.h>

#include <nccl_net/log.h>

#include "heal.h"

void comm_unlink(struct anynet_comm *comm, const char *why)
{
	if (atomic_exchange(&comm->unlinked, true))
		return;
	anynet_warn("%s peer %s pid %u dev %s: going on over TCP, which is slower: %s",
		    comm->is_send ? "send to" : "receive from", comm->peer.host, comm->peer.pid,
		    comm->dev->name, why);
}

/* Its links have no use any more. */
static void leave_links(struct anynet_comm *comm)
{
	for (unsigned i = 0; i < comm->rail_count && !comm_error(comm); i++) {
		struct anynet_rail *rail = comm->rails[i];

		if (rail && rail->fd >= 0 && ib_rail_is_linked(rail))
			comm_rail_broke(comm, rail, -ENOMEM);
	}
}

/* On the comm's own NIC; on others when they are first used. `entered`: with the comm's lock. */
static void register_on_nic(struct anynet_comm *comm, struct anynet_mr *mr, bool entered)
{
	char why[ANYNET_REASON_BYTES];
	int ret;

	if (!comm_is_ib(comm) || comm->unlinked)
		return;
	ret = ib_memory_register(mr, comm->dev, why, sizeof(why));
	if (!ret || ret == -ENODEV) /* gone for now: registered when it is used again */
		return;
	if (!entered)
		comm_enter(comm);
	comm_unlink(comm, why);
	leave_links(comm);
	if (!entered)
		comm_leave(comm);
}

static struct anynet_mr *make(void *addr, size_t bytes, int type)
{
	struct anynet_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	mr->addr = addr;
	mr->bytes = bytes;
	mr->type = type;
	return mr;
}

int anynet_reg_mr(struct anynet_comm *comm, void *addr, size_t bytes, int type,
		  struct anynet_mr **out)
{
	*out = NULL;
	if (!(type & comm->dev->ptr_support))
		return -EOPNOTSUPP;
	*out = make(addr, bytes, type);
	if (!*out)
		return -ENOMEM;
	register_on_nic(comm, *out, false);
	return 0;
}

int comm_borrow_mr(struct anynet_comm *comm, const void *addr, size_t bytes, struct anynet_mr **mr)
{
	*mr = make((void *)(uintptr_t)addr, bytes, ANYNET_PTR_HOST);
	if (!*mr)
		return -ENOMEM;
	register_on_nic(comm, *mr, true);
	(*mr)->borrowed = true;
	LIST_INSERT_HEAD(&comm->borrowed, *mr, among);
	return comm_error(comm);
}

void mr_return(struct anynet_mr *mr)
{
	if (mr->borrowed)
		LIST_REMOVE(mr, among);
	ib_memory_release(mr);
	free(mr);
}

int anynet_reg_mr_dmabuf(struct anynet_comm *comm, void *addr, size_t bytes, int type,
			 uint64_t offset, int fd, struct anynet_mr **out)
{
	(void)offset;
	(void)fd;
	if (type == ANYNET_PTR_HOST)
		return anynet_reg_mr(comm, addr, bytes, type, out);
	*out = NULL;
	return -EOPNOTSUPP;
}

void anynet_dereg_mr(struct anynet_comm *comm, struct anynet_mr *mr)
{
	if (!mr)
		return;
	if (atomic_load_explicit(&mr->in_flight, memory_order_acquire)) {
		/* NCCL is aborting: end the comm, so that nothing touches the buffer any more. */
		int none = 0;

		comm_enter(comm);
		if (atomic_compare_exchange_strong(&comm->error, &none, -ECANCELED))
			anynet_info(
				"%s peer %s dev %s: memory deregistered with requests in flight, they "
				"are cancelled",
				comm->is_send ? "send to" : "receive from", comm->peer.host,
				comm->dev->name);
		comm_close_rails(comm);
		comm_leave(comm);
	}
	mr_return(mr);
}

int anynet_iflush(struct anynet_comm *comm, int n, void *const *data, const int *bytes,
		  struct anynet_mr *const *mrs, struct anynet_request **req)
{
	/* Only for GPU memory that a NIC wrote to (net-api.md §3.6), and our devices offer host memory
	 * only. */
	(void)n;
	(void)data;
	(void)bytes;
	(void)mrs;
	*req = NULL;
	return comm_error(comm);
}
