/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between the conductor and the workers, over the frames of tools/pair/wire.h. The worker sends the
 * greeting and a join. Then the conductor sends orders, and the worker answers each.
 *
 *   join   "name", "port" (on which it serves pairs)
 *   facts  -> "facts" (facts.h of tools/pair), "launcher"
 *   serve  serves clients of anynet pair until the next order -> {}
 *   pair   "host", "port", "dev", "streams", "bytes", "ms" -> "result", or "error"
 *   stats  -> "stats" (live_facts.h), or "error"
 *   bye    ends the worker
 *
 * The functions below validate what the other end sends.
 */
#ifndef CLUSTER_ORDER_H
#define CLUSTER_ORDER_H

#include <jansson.h>

#include "matrix.h"

#include "tools/pair/measure.h"

#define JOIN_MAX    1024 /* bytes of a join */
#define ADDRESS_MAX 256

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

json_t *join_new(const char *name, int port);
/* Returns 0, or -1 if the message is not a valid join. Replaces invalid characters of the name, and truncates it. */
int join_parse(const json_t *message, char name[HOST_NAME], int *port);

#endif
