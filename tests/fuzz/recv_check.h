/* SPDX-License-Identifier: Apache-2.0 */
/* Does what a receive comm keeps of its messages agree with itself? Ends the process if not. */
#ifndef TESTS_FUZZ_RECV_CHECK_H
#define TESTS_FUZZ_RECV_CHECK_H

#include "transports/session/comm.h"

void recv_check(const struct anynet_comm *comm);

#endif
