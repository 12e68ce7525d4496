/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures latency and bandwidth through the plugin. A child process loads the plugin and drives it
 * as NCCL's proxy does, so that settings can differ and its failures do not affect the caller. The
 * control connection carries handles and orders. Both ends call traffic_run at the same time; the
 * callers may use the connection again when both have returned.
 */
#ifndef PAIR_TRAFFIC_H
#define PAIR_TRAFFIC_H

#include <jansson.h>
#include <stdbool.h>

#define TRAFFIC_CHANNELS_MAX 16
#define TRAFFIC_PINGS        1000
#define TRAFFIC_SET_UP_MS    20000

struct proved;

struct traffic {
	bool is_client;
	const struct proved *proved; /* the plugin connects to these only */
	const char *plugin;    /* for driver_open */
	const char *transport; /* "tcp" or "ib": value of ANYNET_TRANSPORT in the child */
	int dev;
	int channels; /* connections of the multi-connection runs; 1 … TRAFFIC_CHANNELS_MAX */
	long long bytes;
	int ms; /* of each of up to four runs; 0 = latency only */
};

/*
 * Returns "error" (a text; "" = success), "net", "device" and, on the client, "latency" (of round
 * trips, in microseconds: "count", "min", "p10", "median", "p90", "p99", "p999", "max") and "runs",
 * a list of "to" ("server" or "client"), "channels", "bytes", "us" and, if data used TCP, "streams"
 * (number of connections) with the sender's statistics (account.h). The caller releases the object.
 */
json_t *traffic_run(int fd, const struct traffic *t);

#endif
