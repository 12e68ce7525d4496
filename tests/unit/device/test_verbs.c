// SPDX-License-Identifier: Apache-2.0
/* How ibv_modify_qp reports errors: a positive error number, or -1 and errno. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transports/device/verbs.h"

static int reported, reported_errno;

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp, (void)attr, (void)mask;
	errno = reported_errno;
	return reported;
}

static int modified(int ret, int err)
{
	const struct verbs verbs = { .modify_qp = modify };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	reported = ret;
	reported_errno = err;
	return verbs_modify_qp(&verbs, NULL, &attr, IBV_QP_STATE);
}

static void test_a_queue_pair_that_is_not_modified_is_a_negative_error(void **state)
{
	(void)state;
	assert_int_equal(modified(0, EAGAIN), 0);
	assert_int_equal(modified(ETIMEDOUT, 0), -ETIMEDOUT);
	assert_int_equal(modified(-1, ENOMEM), -ENOMEM);
	assert_int_equal(modified(-1, 0), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_queue_pair_that_is_not_modified_is_a_negative_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
