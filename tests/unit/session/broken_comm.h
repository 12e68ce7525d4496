/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A comm whose streams have broken. The clock is the test's, and so is connect(): there is no peer, no packet gets through,
 * or the test answers.
 */
#ifndef TESTS_UNIT_SESSION_BROKEN_COMM_H
#define TESTS_UNIT_SESSION_BROKEN_COMM_H

#include "unit/pair.h"

#define PORT        4711 /* addresses of the peer to which nothing is sent */
#define STEP_MS     10
#define RECOVERY_MS 3000

enum network {
	REFUSES,
	UNREACHABLE,
	ANSWERED, /* by the test */
	SILENT,   /* connections are not established */
};

struct broken_comm {
	struct pair pair;
	struct anynet_comm *comm;
	enum network network;
	uint16_t lost_port; /* to which no connection is made; 0 = none */
	int lost_errno;     /* why not; 0 = no packet gets through */
	uint16_t silent_from; /* from this port on connections do not come to stand; 0 = none */
	uint64_t start, now;
	unsigned dials;
	uint64_t dialled_ms, longest_pause_ms;
	int peer;                       /* its end of the last connection; -1 = none */
	struct anynet_wire_hello hello; /* received there */
};

extern struct broken_comm test;

/* for cmocka */
int broken_setup(void **state);
int broken_teardown(void **state);

/* This many addresses at either end. */
void know_paths(unsigned count);

/* A comm with one stream for each path; a send comm has a send of pair_out. */
struct anynet_request *open_send(void);
struct anynet_request *open_send_over(unsigned paths);
void open_recv(void);
void open_recv_over(unsigned paths);

/* All its connections break, and it notices. */
void cut(void);

/* Its attempts to recover, once. */
void step(void);

/* Until it fails, or this long at most. Returns the time. */
uint64_t pass(uint64_t ms);

bool is_over(void); /* it has failed, or its peer has closed it */

/* --- the test as its peer --- */

/* Until a hello has arrived. */
void hear(enum anynet_hello_kind kind);

/* answer() hangs up after it. */
void answer(enum anynet_hello_status status);
void answer_with(enum anynet_hello_status status);
void answer_with_reason(enum anynet_hello_status status, const char *reason);

void hang_up(void);

/* There was one WARN, and it contains `text`. */
void warned_of(const char *text);

#endif
