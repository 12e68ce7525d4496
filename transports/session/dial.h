/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection being made, in steps that never block: connect, say hello, wait for the answer. Who
 * dials whom, how often and what comes of it is the caller's (connect.c, recovery.c).
 */
#ifndef ANYNET_DIAL_H
#define ANYNET_DIAL_H

#include "session/comm.h"
#include "wire/auth.h"

enum dial_state {
	DIAL_IDLE,
	DIAL_HELLO, /* connecting, or saying hello */
	/* from here on the connection stands; with a secret: */
	DIAL_CHALLENGE, /* hello said */
	DIAL_RESPONSE,  /* answering the challenge */
	/* with and without: */
	DIAL_WELCOME, /* nothing more to say */
	DIAL_JOIN,    /* answered; the RDMA connection manager connects the queue pair */
	DIAL_AGREE,   /* or fails; the peer is to do without as well */
	DIAL_PROOF,   /* do packets get through the queue pair? */
	DIAL_DONE,    /* answered: *hello is the WELCOME now, or a refusal in its place */
};

struct dial {
	enum dial_state state;
	enum anynet_hello_kind kind; /* of the last dial */
	int fd; /* -1 = none; with DIAL_DONE the caller may take it */
	size_t done;
	struct sockaddr_storage from, to;
	struct hello_question question;
	struct auth auth;
	/* Offered in the hello, or before dial_start the proven one that a RESUME is for; with
	 * DIAL_DONE it works, and may be taken */
	struct ib_qp *qp;
	struct anynet_wire_frame frame; /* the peer's, with DIAL_AGREE */
	bool narrow; /* set before dial_start: with packets that are no larger than the hello's */
	bool without_cm;   /* the RDMA connection manager has failed: later dials do without */
	bool quiet;        /* why there is no queue pair has been said before */
	uint64_t proof_ms; /* until when the queue pair is to be connected, or proven */
	struct anynet_wire_hello *hello; /* the message being sent or received, last the welcome */
};

#define DIAL_INIT        \
	{                \
		.fd = -1 \
	}

/* From this pair of addresses. False: there is no such pair, or nothing listens there. */
bool dial_pair(struct dial *dial, const struct comm_paths *paths, struct anynet_wire_pair pair);

/* Begin, from dial->from to dial->to, with a hello for the comm behind `paths`. `dev`: its NIC, which a
 * queue pair is to go through if it can (NULL: none). 0 or -errno; `dial` is idle after an error. */
int dial_start(struct dial *dial, const struct comm_paths *paths, const struct anynet_device *dev,
	       enum anynet_hello_kind kind, unsigned stream, uint32_t epoch);

/* Go on as far as it goes: 0 = answered, -EAGAIN = later, else -errno: then close it. */
int dial_step(struct dial *dial);

void dial_close(struct dial *dial); /* idle afterwards */

#endif
