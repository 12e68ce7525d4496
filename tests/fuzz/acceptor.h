/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An acceptor for whoever dials (the program is linked with --wrap=socket_connect): each connection is a
 * line, on which it hears the hello and gives the answer that the script makes of the right one.
 */
#ifndef TESTS_FUZZ_ACCEPTOR_H
#define TESTS_FUZZ_ACCEPTOR_H

#include "peer.h"
#include "transports/wire/auth.h"

#define LINES_MAX      24
#define ACCEPTOR_ADDRS 3
#define ACCEPTOR_PORT  7000 /* and on */
#define ACCEPTOR_QPN   0x99

struct line {
	int fd;     /* -1 = closed */
	int theirs; /* the other end's descriptor, as long as that is open */
	struct anynet_wire_hello hello, answer;
	size_t heard, said; /* of what is being heard, of the answer */
	bool asked;         /* the hello is there */
	struct anynet_wire_hello
		told[2]; /* what has really been told: a challenge, a welcome, or else */
	size_t told_bytes;
	struct auth auth;
};

/* What goes wrong with an answer. */
enum {
	STRAY_KIND = 0x01,
	STRAY_STREAM = 0x02,
	STRAY_EPOCH = 0x04,
	STRAY_COMM = 0x08,
	STRAY_ENDPOINT = 0x10,
	STRAY_BYTES = 0x20,   /* some are the script's, before the proof is made … */
	STRAY_UNPROVEN = 0x40 /* … and behind it */
};

struct acceptor {
	struct input *in;
	bool secret, ib;
	int refuses; /* the next dials fail with this errno; 0 = none does */
	unsigned count;
	struct line lines[LINES_MAX];
};

extern struct acceptor acceptor;

void acceptor_start(struct input *in, bool secret, bool ib);
void acceptor_stop(void);

/* Its address number i, as in handles and WELCOMEs. */
struct anynet_wire_addr acceptor_addr(unsigned i);

/* The line number `back` before the newest one; NULL = there is none. */
struct line *acceptor_line(unsigned back);

/* The line at whose other end this descriptor is. */
const struct line *acceptor_find(int theirs);

/* Has it been told a WELCOME, status OK, to what it asked? */
bool line_is_answered(const struct line *line);

/* Take in what there is. */
void line_hear(struct line *line);

/* Make an answer, of which nothing is said yet: a WELCOME with this status, or a CHALLENGE. `shape`: streams
 * and addresses, position. */
void line_welcome(struct line *line, uint32_t status, uint8_t shape, uint8_t strays);
void line_challenge(struct line *line, uint8_t strays);

void line_say(struct line *line, size_t bytes);

/* These bytes, whatever they are. */
void line_put(struct line *line, const void *bytes, size_t count);

#endif
