/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations without a device; see fake_mr.h. */
#include "fake_mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake fake;

static struct ibv_device device = { .name = "fake_0" };
static struct ibv_context context = { .device = &device };
static atomic_uint serial;

static struct ibv_mr *reg(const struct fake_call *call)
{
	int error = fake.error;
	struct ibv_mr *mr;

	if (!error && call->access & IBV_ACCESS_RELAXED_ORDERING)
		error = fake.relaxed_error;
	fake.calls++;
	if (fake.in_reg)
		fake.in_reg(call);
	else
		fake.last = *call;
	if (error || fake.no_errno) {
		errno = error;
		return NULL;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		abort();
	mr->addr = (void *)call->addr;
	mr->length = call->bytes;
	mr->lkey = ++serial;
	mr->rkey = ~mr->lkey;
	fake.regs++;
	return mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	struct fake_call call = { .kind = FAKE_PLAIN,
				  .addr = (uintptr_t)addr,
				  .bytes = bytes,
				  .access = (unsigned)access };

	return pd == &fake.pd ? reg(&call) : NULL;
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				   unsigned access)
{
	struct fake_call call = { .kind = FAKE_IOVA2,
				  .addr = (uintptr_t)addr,
				  .iova = iova,
				  .bytes = bytes,
				  .access = access };

	return pd == &fake.pd ? reg(&call) : NULL;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes, uint64_t iova,
				    int fd, int access)
{
	struct fake_call call = { .kind = FAKE_DMABUF,
				  .addr = iova,
				  .iova = iova,
				  .offset = offset,
				  .bytes = bytes,
				  .access = (unsigned)access,
				  .fd = fd };

	return pd == &fake.pd ? reg(&call) : NULL;
}

static int dereg_mr(struct ibv_mr *mr)
{
	memset(mr, 0, sizeof(*mr));
	free(mr);
	fake.deregs++;
	if (fake.in_dereg)
		fake.in_dereg();
	return fake.dereg_error;
}

void fake_reset(void)
{
	memset(&fake, 0, sizeof(fake));
	fake.verbs.reg_mr = reg_mr;
	fake.verbs.reg_mr_iova2 = reg_mr_iova2;
	fake.verbs.reg_dmabuf_mr = reg_dmabuf_mr;
	fake.verbs.dereg_mr = dereg_mr;
	fake.pd.context = &context;
}

unsigned fake_live(void)
{
	return fake.regs - fake.deregs;
}
