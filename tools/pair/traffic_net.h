/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the plugin for one measurement: as many to the peer as from it. Single-threaded.
 * Calls that fail return -1 with a text in n->error.
 */
#ifndef PAIR_TRAFFIC_NET_H
#define PAIR_TRAFFIC_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shared/net/driver.h"
#include "traffic.h"

#define TRAFFIC_STEPS 8            /* NCCL_STEPS: requests in flight on a connection */
#define TRAFFIC_STEP  (512 * 1024) /* NCCL's 4 MiB buffer in 8 steps */
#define TRAFFIC_ERROR 600

struct traffic_line { /* one direction of a connection */
	void *listener, *comm, *mhandle;
	_Alignas(8) char handle[DRIVER_HANDLE_BYTES];
	bool is_send;
	char *data; /* TRAFFIC_STEPS slots of TRAFFIC_STEP bytes */
	void *requests[TRAFFIC_STEPS];
	int sizes[TRAFFIC_STEPS];
	uint64_t posted, done;
};

struct traffic_net {
	struct driver_net *net;
	void *ctx;
	int dev;
	struct driver_props props;
	int channels;
	struct traffic_line out[TRAFFIC_CHANNELS_MAX], in[TRAFFIC_CHANNELS_MAX];
	char *memory;
	size_t memory_bytes;
	char error[TRAFFIC_ERROR];
};

/* Opens the plugin and creates `channels` listeners, whose handles are stored in in[].handle. */
int traffic_net_open(struct traffic_net *n, const char *plugin, int dev, int channels);

/* Connects to the handles in out[].handle and accepts, within `ms`. */
int traffic_net_connect(struct traffic_net *n, int ms);

/* Posts the next message of `bytes`, or a receive of at most that. Returns 1 = posted, 0 = not now, -1. */
int traffic_post(struct traffic_net *n, struct traffic_line *l, size_t bytes);

/* Tests the oldest request. Returns 1 = done, with its size in *size; 0 = not yet, or none posted; -1. */
int traffic_test(struct traffic_net *n, struct traffic_line *l, int *size);

void traffic_net_close(struct traffic_net *n);

#endif
