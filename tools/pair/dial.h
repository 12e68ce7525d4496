/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One try to reach a data port: connect, send, and have the other end (responder.h) say how much came.
 * With a few bytes it tells whether the port can be reached and large packets pass, with many how
 * fast the way is and, by the kernel's own account, what holds it up.
 */
#ifndef PAIR_DIAL_H
#define PAIR_DIAL_H

#include <jansson.h>
#include <stdint.h>
#include <sys/socket.h>

#define DIAL_TOKEN_BYTES 16
#define DIAL_STREAMS_MAX 16
#define DIAL_BYTES_MAX   ((long long)64 << 30)
#define DIAL_MS_MAX      10000
#define DIAL_PROBE_BYTES 65536
#define DIAL_WAIT_MS     2000 /* for a connection, and for the count after the last byte */

struct dial {
	struct sockaddr_storage to, from; /* from: no family = the kernel's choice */
	unsigned char token[DIAL_TOKEN_BYTES];
	int streams;
	long long bytes; /* all streams together */
	int ms;          /* no more is sent after so long */
	int mss;         /* no larger segments; 0 = the kernel's choice */
};

/*
 * "state": "ok", "refused", "no answer", "unreachable", "stalled" (connected, but the bytes do not
 * arrive), "not ours" (another program answers), or "failed" (no socket, …), with "error", a text.
 * Where it was connected: "connect_us", "bytes" (as counted by the other end), "us", and the
 * kernel's account (account.h): "mss", "pmtu", "rtt_us", "window_bytes", "segments", "retransmits",
 * "busy_us", "rwnd_limited_us", "sndbuf_limited_us". Takes at most ms + 2 × DIAL_WAIT_MS. A program that only listens there
 * gets PROOF_NONCE random bytes and no more. The caller releases the object.
 */
json_t *dial_run(const struct dial *dial);

#endif
