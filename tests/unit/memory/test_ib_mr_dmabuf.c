/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations of dma-bufs, for which memory files stand in. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/device.h>
#include <nccl_net/util.h>

#include "fakes/stubs/fake_mr.h"
#include "transports/memory/ib_mr.h"

#define BASE ((uintptr_t)0x7f0000000000)

static size_t page;
static struct ib_mr_cache *cache;
static char why[ANYNET_REASON_BYTES];
static const struct memory_id gpu = { 5, 5 };

static int setup(void **state)
{
	(void)state;
	page = (size_t)sysconf(_SC_PAGESIZE);
	fake_reset();
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, false);
	return cache ? 0 : -1;
}

static int teardown(void **state)
{
	bool left = fake_live();

	(void)state;
	free(cache);
	return left ? -1 : 0;
}

static int new_dmabuf(void)
{
	int fd = memfd_create("dmabuf", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct ib_mr *get_of(struct memory_id id, uintptr_t addr, size_t bytes, uint64_t offset,
			    int fd)
{
	const struct memory_range range = { (void *)addr, bytes, id };
	const struct anynet_dmabuf dmabuf = { fd, offset };
	struct ib_mr *mr = NULL;

	if (ib_mr_get_dmabuf(cache, &range, &dmabuf, &mr, why, sizeof(why)))
		fail_msg("%s", why);
	assert_non_null(mr);
	return mr;
}

static struct ib_mr *get(uintptr_t addr, size_t bytes, uint64_t offset, int fd)
{
	return get_of(gpu, addr, bytes, offset, fd);
}

static struct ib_mr *get_host(uintptr_t addr, size_t bytes)
{
	const struct memory_range range = { (void *)addr, bytes, gpu };
	struct ib_mr *mr = NULL;

	assert_int_equal(ib_mr_get(cache, &range, 0, &mr, why, sizeof(why)), 0);
	return mr;
}

static void expect_refused(uintptr_t addr, uint64_t offset, int fd, int ret, const char *part)
{
	const struct memory_range range = { (void *)addr, 1, gpu };
	const struct anynet_dmabuf dmabuf = { fd, offset };
	struct ib_mr *mr = (void *)1;

	if (ib_mr_get_dmabuf(cache, &range, &dmabuf, &mr, why, sizeof(why)) != ret ||
	    !strstr(why, part))
		fail_msg("%s lacks '%s'", why, part);
	assert_null(mr);
}

/* Checks the device's arguments, and deregisters. */
static void expect_put(struct ib_mr *mr, uint64_t offset, size_t bytes, uint64_t iova, int fd)
{
	assert_int_equal(fake.last.kind, FAKE_DMABUF);
	assert_int_equal(fake.last.offset, offset);
	assert_int_equal(fake.last.bytes, bytes);
	assert_int_equal(fake.last.iova, iova);
	assert_int_equal(fake.last.fd, fd);
	assert_int_equal(fake.last.access, FAKE_ACCESS | IBV_ACCESS_REMOTE_READ);
	assert_int_equal(mr->lkey, mr->verbs_mr->lkey);
	assert_int_equal(mr->rkey, mr->verbs_mr->rkey);
	ib_mr_put(mr);
}

static void test_whole_pages_of_a_dmabuf_are_registered(void **state)
{
	int fd = new_dmabuf();

	(void)state;
	expect_put(get(BASE, 2 * page, 0, fd), 0, 2 * page, BASE, fd);
	expect_put(get(BASE, page + 1, 3 * page, fd), 3 * page, 2 * page, BASE, fd);
	/* Both at the same offset in a page. */
	expect_put(get(BASE + 24, page, page + 24, fd), page, 2 * page, BASE, fd);
	/* The page of the address: NCCL's way. */
	expect_put(get(BASE + 24, page, 0, fd), 0, 2 * page, BASE, fd);
	expect_put(get(BASE + 24, 1, page, fd), page, page, BASE, fd);
	close(fd);
}

static void test_places_in_pages_must_agree(void **state)
{
	int fd = new_dmabuf();

	(void)state;
	expect_refused(BASE + 24, 25, fd, -EINVAL, "differ within their pages");
	expect_refused(BASE, 24, fd, -EINVAL, "differ within their pages");
	assert_int_equal(fake.calls, 0);
	close(fd);
}

static void test_dmabufs_and_host_memory_are_kept_apart(void **state)
{
	int fd = new_dmabuf();
	struct ib_mr *host = get_host(BASE, 4 * page), *dmabuf, *again;

	(void)state;
	dmabuf = get(BASE, 4 * page, 0, fd);
	assert_ptr_not_equal(dmabuf, host);
	again = get(BASE, 4 * page, 0, fd);
	assert_ptr_equal(again, dmabuf);
	ib_mr_put(again);
	again = get_host(BASE, 4 * page);
	assert_ptr_equal(again, host);
	ib_mr_put(again);
	ib_mr_put(host);
	again = get_host(BASE, 4 * page);
	assert_ptr_not_equal(again, dmabuf);
	assert_int_equal(fake.regs, 3);
	ib_mr_put(again);
	ib_mr_put(dmabuf);
	close(fd);
}

/* NCCL exports a new one for each connection. */
static void test_whatever_dmabuf_it_is_the_memory_is_registered_once(void **state)
{
	int fds[8];
	struct ib_mr *mrs[ARRAY_SIZE(fds)];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = new_dmabuf();
		mrs[i] = get(BASE, 4 * page, 0, fds[i]);
		assert_ptr_equal(mrs[i], mrs[0]);
	}
	assert_int_equal(fake.regs, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		close(fds[i]); /* only now: each has a number of its own */
		assert_int_equal(fake.deregs, 0);
		ib_mr_put(mrs[i]);
	}
	assert_int_equal(fake.deregs, 1);
}

static void test_other_memory_is_not_shared(void **state)
{
	int fd = new_dmabuf();
	struct ib_mr *mr = get(BASE, 4 * page, 0, fd), *other;

	(void)state;
	other = get_of((struct memory_id){ 6, 6 }, BASE, 4 * page, 0, fd);
	assert_ptr_not_equal(other, mr);
	assert_int_equal(fake.regs, 2);
	ib_mr_put(mr);
	ib_mr_put(other);
	close(fd);
}

static void test_no_dmabuf_is_an_error_at_once(void **state)
{
	int fd = new_dmabuf();

	(void)state;
	expect_refused(BASE, 0, -1, -EBADF, "fd -1 is not a dma-buf: Bad file descriptor");
	fake.verbs.reg_dmabuf_mr = NULL;
	expect_refused(BASE, 0, fd, -EOPNOTSUPP, "rdma-core 34");
	assert_int_equal(fake.calls, 0);
	close(fd);
}

static void test_a_failure_leaves_nothing_behind(void **state)
{
	int fd = new_dmabuf();

	(void)state;
	fake.error = EINVAL;
	expect_refused(BASE, 0, fd, -EINVAL, "bytes of a dma-buf at 0x7f0000000000: Invalid arg");
	fake.error = EFAULT;
	expect_refused(BASE, 0, fd, -EFAULT, "Bad address");
	assert_null(strstr(why, "peer-memory"));
	fake.error = ENOMEM;
	expect_refused(BASE, 0, fd, -ENOMEM,
		       "Cannot allocate memory; the GPU may have no BAR space left");
	assert_null(strstr(why, "MEMLOCK"));
	fake.error = 0;
	ib_mr_put(get(BASE, page, 0, fd));
	assert_int_equal(fake.regs, 1);
	close(fd);
}

static void test_relaxed_ordering_holds_for_dmabufs_too(void **state)
{
	int fd = new_dmabuf();
	struct ib_mr *mr;

	(void)state;
	free(cache);
	cache = ib_mr_cache_create(&fake.verbs, &fake.pd, true);
	mr = get(BASE, page, 0, fd);
	assert_int_equal(fake.last.access,
			 FAKE_ACCESS | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
	ib_mr_put(mr);
	fake.relaxed_error = EINVAL;
	mr = get(BASE, page, 0, fd);
	assert_int_equal(fake.calls, 3);
	assert_int_equal(fake.last.access, FAKE_ACCESS | IBV_ACCESS_REMOTE_READ);
	expect_put(mr, 0, page, BASE, fd);
	close(fd);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_whole_pages_of_a_dmabuf_are_registered),
		T(test_places_in_pages_must_agree),
		T(test_dmabufs_and_host_memory_are_kept_apart),
		T(test_whatever_dmabuf_it_is_the_memory_is_registered_once),
		T(test_other_memory_is_not_shared),
		T(test_no_dmabuf_is_an_error_at_once),
		T(test_a_failure_leaves_nothing_behind),
		T(test_relaxed_ordering_holds_for_dmabufs_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
