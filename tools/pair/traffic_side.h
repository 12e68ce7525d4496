/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a measurement through the plugin, for the files that it is made of. 0 or -1 with net.error. */
#ifndef PAIR_TRAFFIC_SIDE_H
#define PAIR_TRAFFIC_SIDE_H

#include <jansson.h>
#include <stdint.h>

#include "account.h"
#include "traffic.h"
#include "traffic_net.h"

#define SIDE_PING_MS 2000  /* no more round trips after so long */
#define SIDE_STEP_MS 10000 /* beyond the time that a measurement was given */

struct side {
	int fd;
	const struct traffic *t;
	struct traffic_net net;
	json_t *result;
};

/* The first reason counts. Returns -1. */
int side_fail(struct side *s, const char *text);

/* Round trips; the answering end; data out, with the account of TCP connections that have carried it
 * (none where queue pairs did); data in. */
int side_ping(struct side *s);
int side_echo(struct side *s);
int side_stream_out(struct side *s, int channels, struct account *account);
int side_stream_in(struct side *s, int channels, uint64_t *bytes, uint64_t *us);

#endif
