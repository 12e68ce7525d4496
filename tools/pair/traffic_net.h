/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the plugin for one measurement: as many to the peer as from it. Single-threaded, in a process of its
 * own. What fails returns a negative number, with a text in n->error.
 */
#ifndef PAIR_TRAFFIC_NET_H
#define PAIR_TRAFFIC_NET_H

#include "tools/shared/net/net_link.h"
#include "traffic.h"

#define TRAFFIC_STEP  (512 * 1024) /* NCCL's 4 MiB buffer in 8 steps */
#define TRAFFIC_ERROR 600

struct traffic_net {
	struct group group; /* of this process alone; the first member, see say in traffic_net.c */
	struct endpoint ep;
	int channels;
	struct link links[2 * TRAFFIC_CHANNELS_MAX]; /* out, then in: see traffic_out, traffic_in */
	struct link_slot slots[2 * TRAFFIC_CHANNELS_MAX];
	char error[TRAFFIC_ERROR];
};

static inline struct link *traffic_out(struct traffic_net *n, int channel)
{
	return &n->links[channel];
}

static inline struct link *traffic_in(struct traffic_net *n, int channel)
{
	return &n->links[n->channels + channel];
}

/* Opens the plugin and creates `channels` listeners, whose handles are in the slots of traffic_in. */
int traffic_net_open(struct traffic_net *n, const char *plugin, int dev, int channels);

/* Connects to the handles in the slots of traffic_out and accepts. Gives up after `ms` without a further connection. */
int traffic_net_connect(struct traffic_net *n, int ms);

/* Posts the next message of `bytes`, or a receive of at most that. Returns 1 = posted, 0 = not now. */
static inline int traffic_post(struct link *l, size_t bytes)
{
	return link_has_room(l) ? link_post(l, bytes) : 0;
}

/* Tests the oldest request. Returns 1 = done, with its size in *size; 0 = not yet, or none posted. */
static inline int traffic_test(struct link *l, int *size)
{
	int ret = l->done < l->posted ? link_test(l) : 0;

	if (ret > 0)
		*size = (int)link_size(l, l->done - 1);
	return ret;
}

void traffic_net_close(struct traffic_net *n);

#endif
