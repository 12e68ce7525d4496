/* SPDX-License-Identifier: Apache-2.0 */
/* Is a receive comm's state of its messages consistent? Ends the process if not. */
#ifndef TESTS_FUZZ_RECV_CHECK_H
#define TESTS_FUZZ_RECV_CHECK_H

#include "transports/session/comm.h"

void recv_check(const struct anynet_comm *comm);

#endif
