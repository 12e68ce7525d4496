/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open verbs port (a nic), of a device that the probe has offered. It is opened at its first use, once per process,
 * and never closed. libibverbs stays loaded from the probe on.
 */
#ifndef ANYNET_IB_NIC_H
#define ANYNET_IB_NIC_H

#include <pthread.h>
#include <stdatomic.h>

#include <nccl_net/device.h>

#include "device/gid.h"
#include "device/ib_port.h"
#include "device/verbs.h"

struct ib_flush;   /* ib_flush.c */
struct nic_memory; /* gpu_proof.h */

/* Max bytes of a CTS or a control frame, which queue pairs send as a copy: inline if the adapter supports it. */
#define IB_COPY_BYTES 96

#define IB_SILENT_MAX 16 /* peers with a pause; of more, the one whose pause ends first has none */

/* A peer whose Ethernet address the kernel cannot find. Over RoCE it looks for it when a queue pair is connected, and the
 * call takes a second if nobody answers. So such a peer gets a pause in which the kernel is not asked. */
struct ib_silent {
	union ibv_gid peer;
	uint64_t pause_ms, until_ms; /* 0 = the place is free */
};

struct ib_nic {
	const struct anynet_device *dev;
	const struct verbs *verbs;
	struct ibv_context *context; /* not shared; also gets the events of the card's other ports */
	struct ibv_pd *pd;
	struct ibv_device_attr limits;
	char verbs_name[IBV_SYSFS_NAME_MAX];
	uint8_t port;        /* number of the port, from 1 */
	unsigned number;     /* in the order of opening: see ib_nic_opened */
	bool takes_inline;   /* small requests may be inline */
	bool data_direct;    /* `verbs` registers dma-bufs for the Data Direct engine */
	_Atomic bool failed; /* the whole device has failed, with everything created on it; set by ib_events.c */
	_Atomic uint64_t reread_ms; /* when `state` is to be read again; 0 = it need not */
	_Atomic bool told;      /* an event has said so: comms should look at the nic afterwards */
	_Atomic unsigned downs; /* events that report the port down or the device failed */
	_Atomic(struct ib_flush *) flush; /* NULL = no GPU memory has been registered on it */
	_Atomic(struct nic_memory *) memory; /* NULL = no memory has been registered on it */

	pthread_mutex_t lock; /* protects the fields below */
	struct ib_port state;
	struct ib_silent silent[IB_SILENT_MAX];
};

/* Has the probe offered any device? */
bool ib_nic_on_offer(void);

/* The nic of an offered device, found by the device's index. Opens it if it is not open or the open one has failed,
 * which takes as long as the driver takes. A port that is down is no error. *is_new: this call has opened it. NULL:
 * `why`, of `why_bytes`, has the reason; a later call may succeed. Any thread. */
struct ib_nic *ib_nic_open(const struct anynet_device *dev, bool *is_new, char *why,
			   size_t why_bytes);

/* Nic number `i` in the order of opening, failed ones included; NULL = there are no more. Any thread. Takes no lock: the
 * background thread calls it and must not wait for a driver. */
struct ib_nic *ib_nic_opened(int i);

/* Reads state, LID, MTU and GIDs again, for queue pairs made from now on (docs/ib.md, When something fails). Returns as
 * ib_port_read; with -EIO nic->state is unchanged. Any thread. */
int ib_nic_refresh(struct ib_nic *nic);

/* A copy of the port's attributes as last read. Any thread. */
struct ibv_port_attr ib_nic_attr(struct ib_nic *nic);

/* gid_choose with nic->state and the kernel's routes. `peer`: the peer's GID; NULL = not known yet. `to`: then the address
 * at which it is dialled, which says where it is if the NIC's own address for that is one of the port's; NULL = none. Any
 * thread. */
int ib_nic_choose_gid(struct ib_nic *nic, const struct gid *peer, const struct sockaddr_storage *to,
		      struct gid *own, char *why, size_t why_bytes);

/* --- peers that are not found; any thread --- */

/* Has the peer with this GID a pause? */
bool ib_silent_pauses(struct ib_nic *nic, const union ibv_gid *peer);

/* The kernel has been asked: nobody has answered, so that its next pause begins, or it was found. */
void ib_silent_note(struct ib_nic *nic, const union ibv_gid *peer, bool silent);

/* The port has changed: all pauses end. */
void ib_silent_forget(struct ib_nic *nic);

/* --- for the probe, under the core's init lock --- */

/*
 * Starts a new list of offered devices. Takes the library over: *verbs is closed afterwards. NULL = nothing will be
 * offered. Nics that are open stay open, on the library they have.
 */
void ib_nic_offer_start(struct verbs *verbs);

/* The next device of NCCL's list, from 0, is port `port` of the verbs device `verbs_name`. `takes_inline` is the result of
 * the loopback. `data_direct`: it registers dma-bufs for its Data Direct engine. */
void ib_nic_offer(const char *verbs_name, uint8_t port, bool takes_inline, bool data_direct);

#endif
