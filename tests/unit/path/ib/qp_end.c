/* SPDX-License-Identifier: Apache-2.0 */
#include "qp_end.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "support/capture.h"

struct ib_nic *nic;
const struct verbs *stub;
struct verbs verbs;
struct ib_qp *qp;

int qp_end_setup(void **state)
{
	pair_setup(state);
	nic = ib_ends_start();
	if (!stub)
		stub = nic->verbs;
	verbs = *stub;
	nic->verbs = &verbs;
	nic->port = 1;
	return 0;
}

int qp_end_teardown(void **state)
{
	(void)state;
	stub_on_post = NULL;
	ib_qp_free(qp);
	qp = NULL;
	capture_check();
	assert_int_equal(stub_objects(), 0);
	return 0;
}
