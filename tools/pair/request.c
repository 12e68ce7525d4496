/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a client's requests; see request.h. */
#include "request.h"

#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/address.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"
#include "tools/shared/proved.h"

#define MSS_MIN  500

static const char *const ops[] = {
	[REQUEST_FACTS] = "facts",       [REQUEST_CLOCK] = "clock", [REQUEST_LISTEN] = "listen",
	[REQUEST_UNLISTEN] = "unlisten", [REQUEST_DIAL] = "dial",   [REQUEST_PLUGIN] = "plugin",
	[REQUEST_BYE] = "bye",
};

static int parse_dial(const json_t *message, struct request *out)
{
	const char *address = member_text(message, "address");
	struct dial *d = &out->dial;

	out->dial_port = (int)member_int(message, "port", PROVED_PORT_MIN, 65535, -1);
	d->bytes = member_int(message, "bytes", 1, DIAL_BYTES_MAX, -1);
	d->ms = (int)member_int(message, "ms", 1, DIAL_MS_MAX, -1);
	d->mss = (int)member_int(message, "mss", 0, 65535, -1);
	if (out->dial_port < 0 || member_int(message, "streams", 1, 1, -1) < 0 || d->bytes < 0 ||
	    d->ms < 0 || d->mss < 0 || (d->mss && d->mss < MSS_MIN) ||
	    !hex_parse(member_text(message, "token"), d->token, DIAL_TOKEN_BYTES))
		return -1;
	if (*address && !address_parse(address, out->dial_port, &d->to))
		return -1;
	return 0;
}

static int parse_plugin(const json_t *message, struct request *out)
{
	const char *transport = member_text(message, "transport");
	struct traffic *t = &out->traffic;

	t->dev = (int)member_int(message, "dev", 0, 255, -1);
	t->channels = (int)member_int(message, "channels", 1, TRAFFIC_CHANNELS_MAX, -1);
	t->bytes = member_int(message, "bytes", 1, DIAL_BYTES_MAX, -1);
	t->ms = (int)member_int(message, "ms", 0, DIAL_MS_MAX, -1);
	if (t->dev < 0 || t->channels < 0 || t->bytes < 0 || t->ms < 0)
		return -1;
	if (!strcmp(transport, "tcp"))
		t->transport = "tcp";
	else if (!strcmp(transport, "ib"))
		t->transport = "ib";
	return t->transport ? 0 : -1;
}

int request_parse(const json_t *message, struct request *out)
{
	const char *op = member_text(message, "op");

	*out = (struct request){ .op = REQUEST_BYE };
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (strcmp(op, ops[i]) != 0)
			continue;
		out->op = (enum request_op)i;
		if (out->op == REQUEST_DIAL)
			return parse_dial(message, out);
		return out->op == REQUEST_PLUGIN ? parse_plugin(message, out) : 0;
	}
	return -1;
}
