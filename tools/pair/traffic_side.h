/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a measurement through the plugin; internal to the traffic files. Functions return 0,
 * or -1 with a text in net.error. */
#ifndef PAIR_TRAFFIC_SIDE_H
#define PAIR_TRAFFIC_SIDE_H

#include <jansson.h>
#include <stdint.h>

#include "account.h"
#include "traffic.h"
#include "traffic_net.h"

#define SIDE_PING_MS 2000  /* time limit for round trips */
#define SIDE_STEP_MS 10000 /* timeout beyond the planned time of a measurement */

struct side {
	int fd;
	const struct traffic *t;
	struct traffic_net net;
	json_t *result;
};

/* Records `text` as the error unless there is one already. Returns -1. */
int side_fail(struct side *s, const char *text);

/* side_ping measures round trips, side_echo answers them. side_stream_out sends, and returns the
 * statistics of the TCP connections that carried data (none with queue pairs). side_stream_in
 * receives. */
int side_ping(struct side *s);
int side_echo(struct side *s);
int side_stream_out(struct side *s, int channels, struct account *account);
int side_stream_in(struct side *s, int channels, uint64_t *bytes, uint64_t *us);

#endif
