/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One test of a data port: connect, send, and let the other end (responder.h) report how many bytes
 * arrived. A few bytes show whether the port is reachable and large packets pass; many bytes show
 * the bandwidth and, from TCP_INFO, the bottleneck.
 */
#ifndef PAIR_DIAL_H
#define PAIR_DIAL_H

#include <jansson.h>
#include <stdint.h>
#include <sys/socket.h>

#define DIAL_TOKEN_BYTES 16
#define DIAL_BYTES_MAX   ((long long)64 << 30)
#define DIAL_MS_MAX      10000
#define DIAL_PROBE_BYTES 65536
#define DIAL_WAIT_MS     2000 /* timeout of each step of connecting, and for the count after the last byte */

struct dial {
	struct sockaddr_storage to, from; /* from: family 0 = chosen by the kernel */
	unsigned char token[DIAL_TOKEN_BYTES];
	long long bytes;
	int ms;          /* time limit for sending */
	int mss;         /* maximum segment size; 0 = chosen by the kernel */
};

/*
 * Returns an object with "state": "ok", "refused", "no answer", "unreachable", "stalled"
 * (connected, but bytes do not arrive), "not anynet" (another program answers), or "failed" (no
 * socket, …), and a text in "error". If connected, also "connect_us", "bytes" (counted by the other
 * end), "us", and the statistics of account.h: "mss", "pmtu", "rtt_us", "window_bytes", "segments",
 * "retransmits", "busy_us", "rwnd_limited_us", "sndbuf_limited_us". Connecting takes at most 4 ×
 * DIAL_WAIT_MS, the transfer at most ms + DIAL_WAIT_MS. Another program at that port
 * receives PROOF_NONCE random bytes only. The caller releases the object.
 */
json_t *dial_run(const struct dial *dial);

#endif
