/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open verbs port: what the data path needs of a device that the probe has offered. Opened at its
 * first use, once per process, and kept for the life of the process; libibverbs stays loaded from the
 * probe on.
 */
#ifndef ANYNET_IB_NIC_H
#define ANYNET_IB_NIC_H

#include <pthread.h>
#include <stdatomic.h>

#include <nccl_net/device.h>

#include "device/gid.h"
#include "device/ib_port.h"
#include "device/verbs.h"

struct ib_flush; /* ib_flush.c */

/* What a queue pair of ours sends as a copy, inline where that works: a CTS, or a control frame. */
#define IB_COPY_BYTES 96

struct ib_nic {
	const struct anynet_device *dev;
	const struct anynet_config *cfg;
	const struct verbs *verbs;
	/* Of this nic alone. The events of the card's other ports arrive here as well. */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_device_attr limits;
	char verbs_name[IBV_SYSFS_NAME_MAX];
	uint8_t port; /* of that verbs device, from 1 */
	bool takes_inline; /* small requests may be inline */
	bool data_direct;
	/* The device has failed as a whole, what was made of it is of no use. Set by ib_events.c. */
	_Atomic bool failed;
	_Atomic bool stale;               /* `state` is to be read again */
	_Atomic unsigned downs;           /* events that the port is down */
	_Atomic(struct ib_flush *) flush; /* NULL: nothing of a GPU has been registered on it */

	pthread_mutex_t lock; /* of `state`, which ib_nic_refresh renews */
	struct ib_port state;
};

/* Is there any device on offer? */
bool ib_nic_on_offer(void);

/* The nic of a device that the probe has offered, found by the device's name; a new one if that has
 * failed. May block for as long as the driver takes to open it. A port that is down is no error. Any thread. NULL: `why` tells, in
 * `why_bytes`; it may be tried again. *is_new: nobody had opened it. */
struct ib_nic *ib_nic_open(const struct anynet_device *dev, bool *is_new, char *why,
			   size_t why_bytes);

/* Number `i` of those that are open, in the order of opening; NULL = there are no more. Any thread; takes no lock, because
 * the background thread calls it and must not wait for a driver. */
struct ib_nic *ib_nic_opened(int i);

/* Read state, LID, MTU and GIDs again. Any thread. 0 or an error of ib_port_read; with -EIO what was
 * known before stays. */
int ib_nic_refresh(struct ib_nic *nic);

/* A copy of the port's attributes as last read. Any thread. */
struct ibv_port_attr ib_nic_attr(struct ib_nic *nic);

/* gid_choose by what was last read and the kernel's routes, for the peer's GID; NULL = it is not known yet. *own is a
 * copy. Any thread. */
int ib_nic_choose_gid(struct ib_nic *nic, const struct gid *peer, struct gid *own, char *why,
		      size_t why_bytes);

/* --- for the probe, under the core's init lock --- */

/*
 * Begin a new list of offered devices. The table of verbs is taken over: *verbs is closed afterwards.
 * NULL = nothing will be offered. `cfg` stays valid for the life of the process. Nics that are open
 * stay open, on the table they have.
 */
void ib_nic_offer_start(const struct anynet_config *cfg, struct verbs *verbs);

/* The device called `name` in NCCL's list is port `port` of the verbs device `verbs_name`. `takes_inline`: as the
 * loopback has found; `data_direct`: it registers dmabufs for its Data Direct engine. */
void ib_nic_offer(const char *name, const char *verbs_name, uint8_t port, bool takes_inline,
		  bool data_direct);

#endif
