/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An acceptor for dials of the product (the program is linked with --wrap=socket_connect): on each connection it reads
 * the hello and sends an answer, which the script derives from the right one.
 */
#ifndef TESTS_FUZZ_ACCEPTOR_H
#define TESTS_FUZZ_ACCEPTOR_H

#include "peer.h"
#include "transports/wire/auth.h"

#define LINES_MAX      24
#define ACCEPTOR_ADDRS 3
#define ACCEPTOR_PORT  7000 /* and following */
#define ACCEPTOR_QPN   0x99

struct line {
	int fd;     /* -1 = closed */
	int theirs; /* the other end's descriptor while it is open */
	struct anynet_wire_hello hello, answer;
	size_t heard, said; /* of what is being read, of the answer */
	bool asked;         /* the hello is complete */
	struct anynet_wire_hello
		told[2]; /* the last real answer: a challenge, a welcome, or neither */
	size_t told_bytes;
	struct auth auth;
};

/* Errors of an answer. */
enum {
	STRAY_KIND = 0x01,
	STRAY_STREAM = 0x02,
	STRAY_EPOCH = 0x04,
	STRAY_COMM = 0x08,
	STRAY_ENDPOINT = 0x10,
	STRAY_BYTES = 0x20,   /* some bytes are the script's, before the proof is computed … */
	STRAY_UNPROVEN = 0x40 /* … and after it */
};

struct acceptor {
	struct input *in;
	bool secret, ib;
	int refuses; /* the next dials fail with this errno; 0 = none */
	unsigned count;
	struct line lines[LINES_MAX];
};

extern struct acceptor acceptor;

void acceptor_start(struct input *in, bool secret, bool ib);
void acceptor_stop(void);

/* Its address number i, as in handles and WELCOMEs. */
struct anynet_wire_addr acceptor_addr(unsigned i);

/* The connection number `back` before the newest one; NULL = none. */
struct line *acceptor_line(unsigned back);

/* The connection whose other end is this descriptor. */
const struct line *acceptor_find(int theirs);

/* Did it get a WELCOME, status OK, as the answer to its hello? */
bool line_is_answered(const struct line *line);

/* Reads what has arrived. */
void line_hear(struct line *line);

/* Makes an answer, not sent yet: a WELCOME with this status, or a CHALLENGE. `shape`: streams and addresses,
 * position. */
void line_welcome(struct line *line, uint32_t status, uint8_t shape, uint8_t strays);
void line_challenge(struct line *line, uint8_t strays);

void line_say(struct line *line, size_t bytes);

/* Sends these bytes, whatever they are. */
void line_put(struct line *line, const void *bytes, size_t count);

#endif
