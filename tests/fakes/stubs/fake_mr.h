/* SPDX-License-Identifier: Apache-2.0 */
/* A table of verbs that registers nothing, counts, fails on demand, and shows what it was asked for. */
#ifndef FAKE_MR_H
#define FAKE_MR_H

#include <stdatomic.h>
#include <stdint.h>

#include "transports/device/verbs.h"

#define FAKE_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

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

	/* What registrations fail with: all of them, those with relaxed ordering, and with errno 0. */
	atomic_int error, relaxed_error;
	atomic_bool no_errno;
	int dereg_error;

	/* Called by a registration before it succeeds or fails, and by a deregistration that has been
	 * made; NULL = none. */
	void (*in_reg)(const struct fake_call *call);
	void (*in_dereg)(void);

	atomic_uint regs, deregs; /* calls that have succeeded */
	atomic_uint calls;        /* of registering */
	struct fake_call last;    /* of them; for tests with one thread */
};

extern struct fake fake;

/* As new: everything works, nothing is counted. */
void fake_reset(void);

/* Registrations that have not been given back. */
unsigned fake_live(void);

#endif
