/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes between the conductor and the workers, over the frames of tools/pair/wire.h. The worker
 * opens and says join; from then on the conductor orders and the worker answers each order.
 *
 *   join   "name", "port" (where it serves pairs)
 *   facts  -> "facts" (facts.h of tools/pair), "launcher"
 *   serve  from now on clients of anynet pair are served, until the next order -> {}
 *   pair   "host", "port", "dev", "streams", "bytes", "ms" -> "result", or "error"
 *   stats  -> "stats" (live_facts.h), or "error"
 *   bye    ends the worker
 *
 * Either end's word is checked here.
 */
#ifndef CLUSTER_ORDER_H
#define CLUSTER_ORDER_H

#include <jansson.h>

#include "matrix.h"

#include "tools/pair/measure.h"

#define JOIN_MAX    1024 /* bytes of a join */
#define ADDRESS_MAX 256

/* A worker answers within these. */
#define ORDER_FACTS_MS 30000
#define ORDER_PAIR_MS  150000

enum order_op {
	ORDER_FACTS,
	ORDER_SERVE,
	ORDER_PAIR,
	ORDER_STATS,
	ORDER_BYE
};

struct order {
	enum order_op op;
	char host[ADDRESS_MAX];
	int port;
	struct measure measure;
};

json_t *order_new(const struct order *order);
/* 0, or -1 for anything that is no such order. */
int order_parse(const json_t *message, struct order *order);

json_t *join_new(const char *name, int port);
/* The name is made one that can be printed; 0 or -1. */
int join_parse(const json_t *message, char name[HOST_NAME], int *port);

#endif
