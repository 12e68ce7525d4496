/* SPDX-License-Identifier: Apache-2.0 */
/* Orders; see order.h. */
#include "order.h"

#include <stdio.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/pair/dial.h"
#include "tools/pair/traffic.h"
#include "tools/shared/member.h"

static const char *const ops[] = {
	[ORDER_FACTS] = "facts", [ORDER_SERVE] = "serve", [ORDER_PAIR] = "pair",
	[ORDER_STATS] = "stats", [ORDER_BYE] = "bye",
};

json_t *order_new(const struct order *o)
{
	if (o->op != ORDER_PAIR)
		return json_pack("{s:s}", "op", ops[o->op]);
	return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:I}", "op", ops[o->op], "host", o->host,
			 "port", o->port, "dev", o->measure.dev, "streams", o->measure.streams,
			 "ms", o->measure.ms, "bytes", (json_int_t)o->measure.bytes);
}

static int parse_pair(const json_t *message, struct order *o)
{
	struct measure *m = &o->measure;
	const char *host = member_text(message, "host");

	o->port = (int)member_int(message, "port", JOIN_PORT_MIN, 65535, -1);
	m->dev = (int)member_int(message, "dev", 0, 255, -1);
	m->streams = (int)member_int(message, "streams", 1, TRAFFIC_CHANNELS_MAX, -1);
	m->ms = (int)member_int(message, "ms", 0, DIAL_MS_MAX, -1);
	m->bytes = member_int(message, "bytes", 1, DIAL_BYTES_MAX, -1);
	snprintf(o->host, sizeof(o->host), "%s", host);
	return !*host || strlen(host) >= sizeof(o->host) || o->port < 0 || m->dev < 0 ||
			       m->streams < 0 || m->ms < 0 || m->bytes < 0
		       ? -1
		       : 0;
}

int order_parse(const json_t *message, struct order *o)
{
	*o = (struct order){ .op = ORDER_BYE };
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (strcmp(member_text(message, "op"), ops[i]) != 0)
			continue;
		o->op = (enum order_op)i;
		return o->op == ORDER_PAIR ? parse_pair(message, o) : 0;
	}
	return -1;
}
