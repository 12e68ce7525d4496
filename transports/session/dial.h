/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One outgoing connection, made in steps that never block: connect, send the hello, receive the answer. The callers
 * (connect.c, redial.c) decide whom to dial, when to try again and what to do with the answer.
 */
#ifndef ANYNET_DIAL_H
#define ANYNET_DIAL_H

#include "session/comm.h"
#include "wire/auth.h"

enum dial_state {
	DIAL_IDLE,
	DIAL_CONNECT,
	DIAL_HELLO, /* sending the hello */
	/* From here on the connection is established. Only with a secret: */
	DIAL_CHALLENGE, /* receiving the CHALLENGE */
	DIAL_RESPONSE,  /* sending the RESPONSE */
	/* With or without a secret: */
	DIAL_WELCOME, /* receiving the WELCOME */
	DIAL_JOIN,    /* the RDMA CM connects the queue pair */
	DIAL_AGREE,   /* the RDMA CM has failed: agreeing with the peer to connect without it */
	DIAL_PROOF,   /* testing the queue pair */
	DIAL_DONE,    /* *hello is the WELCOME, or a refusal made here in its place */
};

struct dial {
	enum dial_state state;
	enum anynet_hello_kind kind; /* of the latest dial */
	int fd; /* -1 = none; with DIAL_DONE the caller may take it */
	size_t done;
	struct sockaddr_storage from, to;
	struct hello_question question;
	struct auth auth;
	/* The NIC to make a queue pair on once the peer's host has answered; NULL = none */
	const struct anynet_device *dev;
	int traffic_class; /* NCCL's, for it */
	/* Offered in the hello. Before dial_start of a RESUME: the proven one that is to continue the stream. With
	 * DIAL_DONE: proven, or NULL; the caller may take it. */
	struct ib_qp *qp;
	struct anynet_wire_frame frame; /* DIAL_AGREE: the PING sent, then the one received */
	bool narrow; /* set before dial_start: segments of at most PROGRESS_NARROW_BYTES */
	bool without_cm;   /* the RDMA CM has failed: later dials do not ask for it */
	bool quiet;        /* set before dial_start: do not log why there is no queue pair */
	uint64_t deadline_ms;            /* of DIAL_JOIN, DIAL_AGREE, DIAL_PROOF */
	struct anynet_wire_hello *hello; /* message being sent or received; finally the WELCOME */
};

#define DIAL_INIT        \
	{                \
		.fd = -1 \
	}

/* Set dial->from and dial->to. False: there is no such pair of addresses, or nothing listens there. */
bool dial_pair(struct dial *dial, const struct comm_paths *paths, struct anynet_wire_pair pair);

/* Start to connect dial->from to dial->to, with a hello for the comm of `paths`. `dev`: the NIC to offer a queue pair
 * on, if it can have one; NULL = none. 0 or -errno, never -EAGAIN; after an error `dial` is idle. */
int dial_start(struct dial *dial, const struct comm_paths *paths, const struct anynet_device *dev,
	       enum anynet_hello_kind kind, unsigned stream, uint32_t epoch);

/* Continue as far as possible without blocking. 0 = DIAL_DONE; -EAGAIN = call again later; other -errno = failed, call
 * dial_close. */
int dial_step(struct dial *dial);

void dial_close(struct dial *dial); /* frees fd, hello and queue pair; idle afterwards */

#endif
