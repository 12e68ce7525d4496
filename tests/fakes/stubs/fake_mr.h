/* SPDX-License-Identifier: Apache-2.0 */
/* A table of verbs that registers nothing, counts, fails on demand, and records the arguments. */
#ifndef FAKE_MR_H
#define FAKE_MR_H

#include <stdatomic.h>
#include <stdint.h>

#include "transports/device/verbs.h"

/* Of host memory. */
#define FAKE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

struct fake_call {
	enum {
		FAKE_PLAIN,
		FAKE_IOVA2,
		FAKE_DMABUF
	} kind;
	uintptr_t addr; /* with a dmabuf: the iova */
	uint64_t iova, offset;
	size_t bytes;
	unsigned access;
	int fd;
};

struct fake {
	struct verbs verbs;
	struct ibv_pd pd;

	/* Errors of registrations: of all, of those with relaxed ordering, and failures with errno 0. */
	atomic_int error, relaxed_error;
	atomic_bool no_errno;
	int dereg_error;

	/* Called by a registration before it succeeds or fails, and after a deregistration; NULL = none. */
	void (*in_reg)(const struct fake_call *call);
	void (*in_dereg)(void);

	atomic_uint regs, deregs; /* successful calls */
	atomic_uint calls;        /* of the registration */
	struct fake_call last;    /* of those; for tests with one thread */
};

extern struct fake fake;

/* Resets it: everything succeeds, all counts are 0. */
void fake_reset(void);

/* Registrations that were not deregistered. */
unsigned fake_live(void);

#endif
