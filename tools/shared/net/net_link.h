/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links: one-way connections over a driver_net, set up and driven as NCCL's proxy does it. The set-up
 * is a single-threaded loop over all pending connects and accepts (service thread); the data part is
 * a loop of passes, each of which gives every link one step: post a request if there is room for one,
 * else test the oldest (progress thread; net-api.md §3.1-3.5).
 *
 * Functions that can be "not yet" return 1 = done something, 0 = not now, GROUP_ERROR negated = the
 * net failed, which has been said on stderr.
 */
#ifndef TOOLS_NET_LINK_H
#define TOOLS_NET_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"
#include "group.h"

#define LINK_STEPS 8 /* NCCL_STEPS: requests in flight on a connection (net-api.md §1.5) */

/* An opened and initialised net with the device that links are made on. */
struct endpoint {
	struct group *group;
	struct driver_net *net;
	void *ctx;
	int dev;
	struct driver_props props;
};

/* Opens `spec` (driver.h) and checks that device `dev` is there. 0 or -GROUP_ERROR. */
int endpoint_open(struct endpoint *ep, struct group *g, const char *spec, int abi, int dev);
void endpoint_close(struct endpoint *ep);

/* Where a receiving end publishes its handle for the sending end: in the group's area. */
struct link_slot {
	_Atomic int ready;
	_Alignas(8) char handle[DRIVER_HANDLE_BYTES];
};

struct link {
	struct endpoint *ep;
	struct link_slot *slot;
	bool is_send;
	int peer; /* rank, for messages and tags */

	_Alignas(8) char handle[DRIVER_HANDLE_BYTES]; /* the sender's private copy */
	bool has_handle;
	void *listener;
	void *comm;
	void *mhandle;

	char *buffer; /* LINK_STEPS slots of step_bytes */
	size_t step_bytes;
	bool registered;

	void *requests[LINK_STEPS];
	int sizes[LINK_STEPS]; /* of done requests, as the net reported them */
	uint64_t posted, done;
	unsigned
		held; /* done receives whose slot is still being read; kept by the user of the link */
	uint64_t total; /* no more than this many requests are posted */
};

/*
 * Connect `count` links (ep, slot, is_send, peer filled in; the rest zero); all ranks call it at the
 * same time. links_register then gives each a registered buffer of LINK_STEPS × step_bytes, cut
 * from one piece of memory that belongs to the first. 0 or -GROUP_ERROR. links_close undoes both,
 * also when they came half-way.
 */
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

/* Post the next send of `bytes` from (receive of at most `bytes` into) slot `posted`. */
int link_post(struct link *l, size_t bytes);

/* Test the oldest request. 1 when it is done; link_size is then its size in bytes. */
int link_test(struct link *l);

static inline size_t link_size(const struct link *l, uint64_t index)
{
	return (size_t)l->sizes[index % LINK_STEPS];
}

/* 0, or -GROUP_ERROR after saying so when request `index` did not bring `bytes`. */
int link_expect(const struct link *l, uint64_t index, size_t bytes);

/* One step of the progress loop, as NCCL's proxy: post if there is room, else test the oldest. */
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
