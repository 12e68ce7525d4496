/* SPDX-License-Identifier: Apache-2.0 */
/* Dials, with and without a secret, to a peer with arbitrary answers, which is the test. */
#ifndef TESTS_UNIT_SESSION_LINE_H
#define TESTS_UNIT_SESSION_LINE_H

#include "transports/session/dial.h"
#include "unit/local_net.h"

/* --- the secret --- */

extern char secret_dir[]; /* where its file is */

/* Without a library for it there are no secrets: prints why and returns false. */
bool secrets_work(void);

/* For cmocka: setup and teardown of the group, and setup of a test. */
int make_secret(void **state);
int remove_secret(void **state);
int without_secret(void **state);
int with_secret(void **state);

/* --- the peer --- */

extern int other; /* its listening socket */

struct comm_paths find_other(void);

/* One dial, from both ends. */
struct line {
	struct dial dial;
	int fd;                         /* its end */
	struct anynet_wire_hello hello; /* as received */
	struct auth auth;               /* its side of the proof, if it has one */
};

void ring(struct line *line);                                         /* up to the hello, which has arrived */
void listen_to(struct line *line, struct anynet_wire_hello *message); /* the next message of the dial */
void answer(struct line *line, const struct anynet_wire_hello *message, size_t bytes);
int end_of(struct line *line); /* the result of the dial */
void hang_up(struct line *line);

void wait_for(int fd); /* until it can be read */

/* An answer to the hello of ring(). */
struct anynet_wire_hello welcome_with(enum anynet_hello_status status);

/* This is its whole answer; the dial's result is `status` with `reason`. */
void comes_to(const struct anynet_wire_hello *message, enum anynet_hello_status status,
	      const char *reason);

#endif
