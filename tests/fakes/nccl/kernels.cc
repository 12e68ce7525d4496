/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a launch tells a block to do. A launch's arguments are struct ncclDevKernelArgs and behind it
 * the batches, the first one of each block first (src/include/device.h; loadWorkBatchToShmem() and
 * ncclKernelMain() of src/device/common.h).
 */
#include <cstdio>
#include <cstdlib>
#include <map>

#include "kernels.hh"
#include "softgpu.h"

void cannot(const char *what, int value)
{
	fprintf(stderr, "software GPU: no such %s: %d\n", what, value);
	abort();
}

namespace
{

using Functions = std::map<int, Function>;

/* Ring, Simple and LL, of the types that are their own: signed integers are done by the unsigned. */
Functions list_functions()
{
	static const ncclDataType_t types[] = { ncclUint8, ncclUint32, ncclUint64, ncclFloat32,
						ncclFloat64 };
	static const ncclFunc_t reducing[] = { ncclFuncAllReduce, ncclFuncReduceScatter,
					       ncclFuncReduce };
	static const ncclFunc_t copying[] = { ncclFuncAllGather, ncclFuncBroadcast };
	Functions functions;

	for (int proto : { NCCL_PROTO_LL, NCCL_PROTO_SIMPLE }) {
		for (ncclFunc_t coll : copying)
			functions[ncclDevFuncId(coll, 0, ncclInt8, NCCL_ALGO_RING, proto)] =
				Function{ coll, ncclDevSum, ncclUint8, proto };
		for (ncclFunc_t coll : reducing)
			for (int op : { ncclDevSum, ncclDevProd, ncclDevMinMax, ncclDevPreMulSum })
				for (ncclDataType_t type : types)
					functions[ncclDevFuncId(coll, op, type, NCCL_ALGO_RING,
								proto)] =
						Function{ coll, (ncclDevRedOp_t)op, type, proto };
	}
	return functions;
}

/* A work of the batch; those in the ring buffer of works wrap, at multiples of 16 bytes. */
template <typename Work> Work load_work(const ncclDevKernelArgs *args, uint32_t offset)
{
	Work work;

	static_assert(sizeof(work) % 16 == 0, "works are copied by 16 bytes");
	for (uint32_t at = 0; at < sizeof(work); at += 16)
		memcpy((char *)&work + at,
		       args->workStorageType == ncclDevWorkStorageTypeArgs
			       ? (const char *)args + offset + at
			       : (const char *)args->workBuf + ((offset + at) & args->workMask),
		       16);
	return work;
}

template <typename Work>
void load_works(const ncclDevKernelArgs *args, const ncclDevWorkBatch &batch,
		std::vector<Work> &works)
{
	for (int i = 0; i < 64; i++)
		if (batch.offsetBitset >> i & 1)
			works.push_back(
				load_work<Work>(args,
						batch.offsetBase + (uint32_t)(i * sizeof(Work))));
}

/* One batch and those that extend it. Returns the next one's index or -1. */
int run_batch(Block &block, const ncclDevKernelArgs *args, int index)
{
	// Blocks may outlive the process's static objects.
	static const Functions &functions = *new Functions(list_functions());
	const ncclDevWorkBatch *batches = (const ncclDevWorkBatch *)(args + 1);
	std::vector<ncclDevWorkP2p> transfers;
	std::vector<ncclDevWorkColl> collectives;

	for (;;) {
		const ncclDevWorkBatch &batch = batches[index];

		if (batch.workType == ncclDevWorkTypeP2p)
			load_works(args, batch, transfers);
		else if (batch.workType == ncclDevWorkTypeColl)
			load_works(args, batch, collectives);
		else
			cannot("type of work", batch.workType);
		if (!batch.nextExtends)
			break;
		index += (int)batch.nextJump;
	}
	const ncclDevWorkBatch &last = batches[index];
	if (!transfers.empty())
		run_send_recv(block, transfers);
	for (ncclDevWorkColl &work : collectives) {
		const auto function = functions.find((int)last.funcId);

		if (function == functions.end())
			cannot("device function (only NCCL_ALGO=Ring, NCCL_PROTO=LL,Simple)",
			       (int)last.funcId);
		if (!block.aborted)
			run_collective(block, function->second, &work);
	}
	return last.nextJump ? index + (int)last.nextJump : -1;
}

/* The block's number is its channel's place among the channels of the launch. */
int channel_of(uint64_t mask, unsigned number)
{
	for (int channel = 0; channel < MAXCHANNELS; channel++)
		if (mask >> channel & 1 && !number--)
			return channel;
	cannot("block", (int)number);
}

} // namespace

/* Every kernel's body: which function it is, the batch says. */
void softgpu_kernel(const ncclDevKernelArgs *args)
{
	ncclKernelCommAndChannels *both = (ncclKernelCommAndChannels *)args->comm;
	const unsigned number = softgpu_block();
	const int channel = channel_of(args->channelMask, number);
	Block block{ args->comm, &both->channels[channel], channel };

	for (int index = (int)number; index >= 0 && !block.aborted;)
		index = run_batch(block, args, index);
}
