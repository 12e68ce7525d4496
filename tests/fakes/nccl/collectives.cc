/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring algorithms. Which rank's part a step moves is what the proxies count on: it follows
 * runRing() of src/device/{all_reduce,all_gather,reduce_scatter,broadcast,reduce}.h.
 */
#include "kernels.hh"

namespace
{

/* Reductions: first() is applied to what a rank contributes. */
template <typename T> struct Sum {
	explicit Sum(uint64_t)
	{
	}
	T first(T a) const
	{
		return a;
	}
	T operator()(T a, T b) const
	{
		return a + b;
	}
};

template <typename T> struct Prod {
	explicit Prod(uint64_t)
	{
	}
	T first(T a) const
	{
		return a;
	}
	T operator()(T a, T b) const
	{
		return a * b;
	}
};

/* The argument says which of the two: of integers it flips what the larger one is. */
template <typename T> struct MinMax {
	uint64_t arg;
	explicit MinMax(uint64_t arg) : arg(arg)
	{
	}
	T first(T a) const
	{
		return a;
	}
	T operator()(T a, T b) const
	{
		if constexpr (std::is_integral<T>::value)
			return (T)(a ^ (T)arg) > (T)(b ^ (T)arg) ? a : b;
		else
			return arg & 1 ? std::max(a, b) : std::min(a, b);
	}
};

template <typename T> struct PreMulSum {
	T factor;
	explicit PreMulSum(uint64_t arg)
	{
		memcpy(&factor, &arg, sizeof(factor));
	}
	T first(T a) const
	{
		return a * factor;
	}
	T operator()(T a, T b) const
	{
		return a + b;
	}
};

/* A collective's ring on one channel. Where src is given it is reduced with what is received, if
 * anything is. */
template <typename T, typename Reduce, typename Protocol> struct Ring {
	Block &block;
	Protocol &protocol;
	const Reduce reduce;

	void move(bool receive, bool send, const T *src, T *dst, ssize_t count)
	{
		const ssize_t most = protocol.slice_count(std::max(count, (ssize_t)0), sizeof(T));
		ssize_t at = 0;

		for (int i = 0; i < protocol.slices; i++) {
			const ssize_t n = std::max((ssize_t)0, std::min(most, count - at));

			if (!slice(receive, send, src ? src + at : nullptr,
				   dst ? dst + at : nullptr, n))
				return;
			at += n;
		}
	}

      private:
	bool slice(bool receive, bool send, const T *src, T *dst, ssize_t n)
	{
		const size_t bytes = n * sizeof(T);
		const T *got = nullptr;
		T *put = nullptr;

		if (receive && block.wait([&] { return protocol.there(bytes); }))
			got = (const T *)protocol.take(bytes);
		if (send && block.wait([&] { return protocol.room(); }))
			put = (T *)protocol.place(bytes);
		if (block.aborted)
			return false;
		if (put)
			combine(put, got, src, n);
		if (dst && put)
			memmove(dst, put, bytes);
		else if (dst)
			combine(dst, got, src, n);
		if (receive)
			protocol.taken();
		if (send)
			protocol.placed(bytes);
		return true;
	}

	void combine(T *to, const T *got, const T *src, ssize_t n)
	{
		if (got && src)
			for (ssize_t i = 0; i < n; i++)
				to[i] = reduce(got[i], reduce.first(src[i]));
		else if (src)
			for (ssize_t i = 0; i < n; i++)
				to[i] = reduce.first(src[i]);
		else if (to != got)
			memmove(to, got, n * sizeof(T));
	}
};

/* What of the data the channel does. */
struct Part {
	ssize_t count, at, own,
		chunk; /* of everything; first element, elements, elements at a time */

	Part(ncclDevWorkColl *work, int channel, int proto, size_t type_bytes)
	{
		ncclCollCbdPart(work, channel, proto, (int)type_bytes, &count, &at, &own, &chunk);
	}
};

template <typename R, typename T>
void all_reduce(R ring, Block &block, Part part, const T *in, T *out)
{
	const int ranks = block.comm->nRanks, index = block.channel->ring.index;
	const ssize_t loop = ranks * part.chunk;

	for (ssize_t done = 0; done < part.own; done += loop) {
		const ssize_t left = part.own - done, grain = 16 / sizeof(T);
		const auto at = [&](int rank) { return (ssize_t)(rank % ranks) * part.chunk; };
		const auto step = [&](int rank, bool receive, bool send, bool reduce, bool keep) {
			const ssize_t from = part.at + done + at(rank);

			ring.move(receive, send, reduce ? in + from : nullptr,
				  keep ? out + from : nullptr,
				  std::min(part.chunk, left - at(rank)));
		};

		if (left < loop)
			part.chunk = ((left + ranks - 1) / ranks + grain - 1) / grain * grain;
		step(index + ranks - 1, false, true, true, false);
		for (int j = 2; j < ranks; j++)
			step(index + ranks - j, true, true, true, false);
		step(index, true, true, true, true);
		for (int j = 1; j < ranks - 1; j++)
			step(index + ranks - j, true, true, false, true);
		step(index + 1, true, false, false, true);
	}
}

template <typename R, typename T>
void reduce_scatter(R ring, Block &block, const Part &part, const T *in, T *out)
{
	const int ranks = block.comm->nRanks, *order = block.channel->ring.userRanks;

	for (ssize_t done = 0; done < part.own; done += part.chunk) {
		const ssize_t n = std::min(part.chunk, part.own - done), at = part.at + done;

		ring.move(false, true, in + at + order[ranks - 1] * part.count, nullptr, n);
		for (int j = 2; j < ranks; j++)
			ring.move(true, true, in + at + order[ranks - j] * part.count, nullptr, n);
		ring.move(true, false, in + at + order[0] * part.count, out + at, n);
	}
}

template <typename R, typename T>
void all_gather(R ring, Block &block, const Part &part, const T *in, T *out)
{
	const int ranks = block.comm->nRanks, *order = block.channel->ring.userRanks;

	for (ssize_t done = 0; done < part.own; done += part.chunk) {
		const ssize_t n = std::min(part.chunk, part.own - done), at = part.at + done;
		T *own = out + at + order[0] * part.count;

		ring.move(false, true, in + at, in + at == own ? nullptr : own, n);
		for (int j = 1; j < ranks - 1; j++)
			ring.move(true, true, nullptr, out + at + order[ranks - j] * part.count, n);
		ring.move(true, false, nullptr, out + at + order[1] * part.count, n);
	}
}

template <typename R, typename T>
void broadcast(R ring, Block &block, const Part &part, int root, const T *in, T *out)
{
	const int *order = block.channel->ring.userRanks;

	for (ssize_t done = 0; done < part.own; done += part.chunk) {
		const ssize_t n = std::min(part.chunk, part.own - done), at = part.at + done;

		if (order[0] == root)
			ring.move(false, true, in + at, in == out ? nullptr : out + at, n);
		else
			ring.move(true, order[1] != root, nullptr, out + at, n);
	}
}

template <typename R, typename T>
void reduce(R ring, Block &block, const Part &part, int root, const T *in, T *out)
{
	const int ranks = block.comm->nRanks, *order = block.channel->ring.userRanks;

	for (ssize_t done = 0; done < part.own; done += part.chunk) {
		const ssize_t n = std::min(part.chunk, part.own - done), at = part.at + done;

		if (order[0] == root)
			ring.move(true, false, in + at, out + at, n);
		else
			ring.move(order[ranks - 1] != root, true, in + at, nullptr, n);
	}
}

template <typename T, typename Reduce, typename Protocol>
void run_ring(Block &block, ncclFunc_t coll, ncclDevWorkColl *work, Protocol &protocol)
{
	const Ring<T, Reduce, Protocol> ring{ block, protocol, Reduce(work->redOpArg) };
	const Part part(work, block.channel_id, Protocol::id, sizeof(T));
	const T *in = (const T *)work->sendbuff;
	T *out = (T *)work->recvbuff;

	switch (coll) {
	case ncclFuncAllReduce:
		return all_reduce(ring, block, part, in, out);
	case ncclFuncReduceScatter:
		return reduce_scatter(ring, block, part, in, out);
	case ncclFuncAllGather:
		return all_gather(ring, block, part, in, out);
	case ncclFuncBroadcast:
		return broadcast(ring, block, part, work->root, in, out);
	case ncclFuncReduce:
		return reduce(ring, block, part, work->root, in, out);
	default:
		cannot("collective", coll);
	}
}

/* Slices of a chunk and steps of a slice, as src/include/collectives.h has them. */
template <typename T, typename Reduce>
void with_protocol(Block &block, const Function &function, ncclDevWorkColl *work)
{
	const bool halved = function.coll != ncclFuncBroadcast && function.coll != ncclFuncReduce;
	ncclRing &ring = block.channel->ring;
	ncclConnInfo *in = &block.channel->peers[ring.prev]->recv[0];
	ncclConnInfo *out = &block.channel->peers[ring.next]->send[0];

	if (function.proto == NCCL_PROTO_LL) {
		LowLatency protocol(block, in, out);

		run_ring<T, Reduce>(block, function.coll, work, protocol);
	} else if (function.proto == NCCL_PROTO_SIMPLE) {
		Simple protocol(block, in, out,
				halved ? ALLREDUCE_CHUNKSTEPS / ALLREDUCE_SLICESTEPS : 1,
				halved ? ALLREDUCE_SLICESTEPS : 1,
				block.comm->buffSizes[NCCL_PROTO_SIMPLE] / NCCL_STEPS);

		run_ring<T, Reduce>(block, function.coll, work, protocol);
	} else {
		cannot("protocol", function.proto);
	}
}

template <typename T>
void with_reduction(Block &block, const Function &function, ncclDevWorkColl *work)
{
	switch (function.op) {
	case ncclDevSum:
		return with_protocol<T, Sum<T>>(block, function, work);
	case ncclDevProd:
		return with_protocol<T, Prod<T>>(block, function, work);
	case ncclDevMinMax:
		return with_protocol<T, MinMax<T>>(block, function, work);
	case ncclDevPreMulSum:
		return with_protocol<T, PreMulSum<T>>(block, function, work);
	default:
		cannot("reduction", function.op);
	}
}

} // namespace

void run_collective(Block &block, const Function &function, ncclDevWorkColl *work)
{
	if (work->regUsed || work->netRegUsed)
		cannot("collective on registered buffers", function.coll);
	if (work->redOpArgIsPtr)
		cannot("argument of a reduction in device memory, of type", function.type);
	switch (function.type) {
	case ncclUint8:
		return with_reduction<uint8_t>(block, function, work);
	case ncclUint32:
		return with_reduction<uint32_t>(block, function, work);
	case ncclUint64:
		return with_reduction<uint64_t>(block, function, work);
	case ncclFloat32:
		return with_reduction<float>(block, function, work);
	case ncclFloat64:
		return with_reduction<double>(block, function, work);
	default:
		cannot("type", function.type);
	}
}
