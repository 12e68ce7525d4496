/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a queue pair of the stub's device, whose verbs a test may observe. */
#ifndef TESTS_UNIT_PATH_IB_QP_END_H
#define TESTS_UNIT_PATH_IB_QP_END_H

#include "unit/ib_ends.h"

extern struct ib_nic *nic;
extern const struct verbs *stub;
extern struct verbs verbs; /* those of the stub; the test may replace some */
extern struct ib_qp *qp;   /* ends with the test */

int qp_end_setup(void **state);
int qp_end_teardown(void **state);

#endif
