/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency and bandwidth through the plugin itself: its table is opened and driven as NCCL's proxy does
 * it, in a process of its own, so that a setting can be changed for it and nothing that happens in it
 * reaches the caller. The control connection carries the handles and says what is to be done; both
 * sides call traffic_run at the same time and the connection is theirs again when both have returned.
 */
#ifndef PAIR_TRAFFIC_H
#define PAIR_TRAFFIC_H

#include <jansson.h>
#include <stdbool.h>

#define TRAFFIC_CHANNELS_MAX 16
#define TRAFFIC_PINGS        1000
#define TRAFFIC_SET_UP_MS    20000

struct traffic {
	bool is_client;
	const char *plugin;    /* for driver_open */
	const char *transport; /* "tcp" or "ib": ANYNET_TRANSPORT of that process */
	int dev;
	int channels; /* of the run with several connections; 1 … TRAFFIC_CHANNELS_MAX */
	long long bytes;
	int ms; /* of each of the four runs; 0 = only latency */
};

/*
 * "error" (a text; "" = all went well), "net", "device", and, of the client's, "latency" (of round
 * trips, in microseconds: "count", "min", "p10", "median", "p90", "p99", "p999", "max") and "runs", a list
 * of "to" ("server" or "client"), "channels", "bytes", "us", and, where data went over TCP, "streams" (connections
 * that carried it) with the sender's account of them (account.h). The caller releases it.
 */
json_t *traffic_run(int fd, const struct traffic *t);

#endif
