/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: one-way connections over a driver_net, set up and driven as NCCL's proxy does. The set-up is
 * a single-threaded loop over all pending connects and accepts (service thread). The data part is a
 * loop of passes, each of which gives every link one step: post a request if there is room for one,
 * else test the oldest (progress thread; net-api.md §3.1-3.5).
 *
 * Functions that cannot block return 1 = progress, 0 = not now, -GROUP_ERROR = the net failed, after a
 * message on stderr.
 */
#ifndef TOOLS_NET_LINK_H
#define TOOLS_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "group.h"

#define LINK_STEPS 8 /* NCCL_STEPS: requests in flight on a connection (net-api.md §1.5) */

/* An opened and initialised net, and the device that its links use. */
struct endpoint {
	struct group *group;
	struct driver_net *net;
	void *ctx;
	int dev;
	struct driver_props props;
};

/* Opens `spec` (driver.h) and checks that device `dev` exists. Returns 0 or -GROUP_ERROR. */
int endpoint_open(struct endpoint *ep, struct group *g, const char *spec, int abi, int dev);
void endpoint_close(struct endpoint *ep);

/* Returns the last warning of the net that was not printed, and forgets it; "" = none. */
const char *endpoint_warning(void);

/* In the group's area: the receiver publishes its handle here for the sender. */
struct link_slot {
	_Atomic int ready;
	int sender; /* rank that connects */
	_Alignas(8) char handle[DRIVER_HANDLE_BYTES];
};

struct link {
	struct endpoint *ep;
	struct link_slot *slot;
	bool is_send;
	int peer; /* rank of the peer, for messages and tags */

	_Alignas(8) char handle[DRIVER_HANDLE_BYTES]; /* private copy of the sender */
	bool has_handle;
	void *listener;
	void *comm;
	void *mhandle;

	char *buffer; /* LINK_STEPS slots of step_bytes */
	size_t step_bytes;
	bool registered;

	void *requests[LINK_STEPS];
	int sizes[LINK_STEPS]; /* reported by the net for completed requests */
	uint64_t posted, done;
	unsigned
		held; /* completed receives whose slot is still in use; maintained by the user of the link */
	uint64_t total; /* number of requests to post in all */
};

/*
 * links_connect connects `count` links (ep, slot, is_send and peer set, the rest zero); all ranks
 * call it at the same time. links_listen is its first part, for those who carry slots to other hosts
 * before the second. links_register gives each link a registered buffer of LINK_STEPS ×
 * step_bytes, part of one mapping whose start is the first link's buffer. All return 0 or
 * -GROUP_ERROR. links_close undoes them, also after a partial failure.
 */
int links_listen(struct link *links, int count);
int links_connect(struct link *links, int count);
int links_register(struct link *links, int count, size_t step_bytes);
void links_close(struct link *links, int count);

static inline char *link_slot_data(const struct link *l, uint64_t index)
{
	return l->buffer + (index % LINK_STEPS) * l->step_bytes;
}

static inline bool link_has_room(const struct link *l)
{
	return l->posted < l->total && l->posted - l->done + l->held < LINK_STEPS;
}

/* Posts the next send of `bytes`, or receive of at most `bytes`, at slot `posted`. */
int link_post(struct link *l, size_t bytes);

/* Tests the oldest request. Returns 1 when it is done; link_size then returns its bytes. */
int link_test(struct link *l);

static inline size_t link_size(const struct link *l, uint64_t index)
{
	return (size_t)l->sizes[index % LINK_STEPS];
}

/* Returns 0, or -GROUP_ERROR after a message if request `index` did not transfer `bytes`. */
int link_expect(const struct link *l, uint64_t index, size_t bytes);

/* One step of the progress loop, as in NCCL's proxy: post if there is room, else test the oldest. */
static inline int link_step(struct link *l, size_t bytes)
{
	if (link_has_room(l)) {
		int ret = link_post(l, bytes);

		if (ret)
			return ret;
	}
	return l->done < l->posted ? link_test(l) : 0;
}

#endif
