/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels of NCCL do, for one block: a thread of the CPU.
 *
 *   kernels.cc      finds a block's work: batches of a launch; the table of functions
 *   collectives.cc  one collective on one channel      sendrecv.cc   a batch of sends and receives
 *   protocols.hh    one connection                     outside.cc    what else NCCL's device code defines
 */
#ifndef TESTS_NCCL_KERNELS_HH
#define TESTS_NCCL_KERNELS_HH

#include "protocols.hh"

/* What an id of a device function stands for. */
struct Function {
	ncclFunc_t coll;
	ncclDevRedOp_t op;
	ncclDataType_t type;
	int proto;
};

/* Says what cannot be done and ends the process: the kernel would leave its peers waiting. */
[[noreturn]] void cannot(const char *what, int value);

void run_collective(Block &block, const Function &function, ncclDevWorkColl *work);
/* All at once: a send may wait for what a receive of the same batch takes. */
void run_send_recv(Block &block, std::vector<ncclDevWorkP2p> &works);

#endif
