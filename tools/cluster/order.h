/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of the coordinator, over the frames of tools/pair/wire.h. The worker answers each.
 *
 *   facts  -> "facts" (facts.h of tools/pair), "launcher"
 *   serve  serves clients of anynet pair until the next order -> {}
 *   pair   "host", "port", "dev", "streams", "bytes", "ms" -> "result", or "error"
 *   stats  -> "stats" (live_facts.h), or "error"
 *   bye    ends the worker
 *
 * order_parse validates what the other end sends.
 */
#ifndef CLUSTER_ORDER_H
#define CLUSTER_ORDER_H

#include <jansson.h>

#include "tools/hosts/node.h"
#include "tools/pair/measure.h"


/* Time limits of a worker for an answer. */
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
/* Returns 0, or -1 if the message is not a valid order. */
int order_parse(const json_t *message, struct order *order);

#endif
