/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One channel's connections as a kernel sees them: the protocols Simple and LL of NCCL (src/device/
 * prims_simple.h and prims_ll.h tell how a device uses struct ncclConnInfo), for one thread of the
 * CPU in place of a block of the GPU.
 *
 * A connection has NCCL_STEPS places. Simple: the receiver's `tail` and the sender's `head` count steps;
 * the sender puts the bytes of a step in connFifo before it moves its tail. LL: lines of 16 bytes, 8 of
 * them data and the rest flags, which say that the line is there; the proxy reads them too.
 */
#ifndef TESTS_NCCL_PROTOCOLS_HH
#define TESTS_NCCL_PROTOCOLS_HH

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <vector>

#include "collectives.h"
#include "device.h"

/* A kernel's block: it works for one channel. */
struct Block {
	const ncclKernelComm *comm;
	ncclDevChannel *channel;
	int channel_id;
	bool aborted = false;

	/* Until ready() or an abort; false then. */
	template <typename Ready> bool wait(Ready ready)
	{
		for (unsigned spins = 1; !aborted && !ready(); spins++) {
			if (spins % 64 == 0)
				sched_yield();
			aborted = __atomic_load_n(comm->abortFlag, __ATOMIC_RELAXED) != 0;
		}
		return !aborted;
	}
};

static inline uint64_t load_count(const uint64_t *count)
{
	return __atomic_load_n(count, __ATOMIC_ACQUIRE);
}

static inline void store_count(uint64_t *count, uint64_t value)
{
	__atomic_store_n(count, value, __ATOMIC_RELEASE);
}

/* `in` and `out` may be null: nothing is received or sent then. Every call is for one slice. */
class Simple
{
      public:
	static constexpr int id = NCCL_PROTO_SIMPLE;
	const int slices; /* of a chunk */

	Simple(Block &block, ncclConnInfo *in, ncclConnInfo *out, int slices, int slice_steps,
	       size_t step_bytes)
	    : slices(slices), in_(in), out_(out), slice_steps_(slice_steps), step_bytes_(step_bytes)
	{
		const uint64_t chunk_steps = (uint64_t)slices * slice_steps;

		(void)block;
		if (in_) {
			in_step_ = (in_->step + chunk_steps - 1) / chunk_steps * chunk_steps;
			store_count(in_->head, in_step_);
		}
		if (out_)
			out_step_ = (out_->step + chunk_steps - 1) / chunk_steps * chunk_steps;
	}
	~Simple()
	{
		if (in_)
			in_->step = in_step_;
		if (out_)
			out_->step = out_step_;
	}

	ssize_t slice_count(ssize_t count, size_t type_bytes) const
	{
		const ssize_t slice = (ssize_t)(step_bytes_ / type_bytes) * slice_steps_;

		return std::max((count + 16 * slices - 1) / (16 * slices) * 16, slice / 32);
	}

	bool there(size_t) const
	{
		return load_count(in_->tail) >= in_step_ + slice_steps_;
	}
	const void *take(size_t) const
	{
		return place_of(in_, in_step_);
	}
	void taken()
	{
		store_count(in_->head, in_step_ += slice_steps_);
	}

	bool room() const
	{
		return load_count(out_->head) + NCCL_STEPS >= out_step_ + slice_steps_;
	}
	void *place(size_t bytes)
	{
		if (out_->connFifo)
			out_->connFifo[out_step_ % NCCL_STEPS].size = (ssize_t)bytes;
		return place_of(out_, out_step_);
	}
	void placed(size_t)
	{
		store_count(out_->tail, out_step_ += slice_steps_);
	}

	/* Of buffers that are registered with the net. The proxy may put a message there from now on: */
	void expect_direct()
	{
		in_->connFifo[in_step_ % NCCL_STEPS].size = 0;
	}
	/* The last step has left. */
	bool is_sent() const
	{
		return __atomic_load_n(
			       &out_->connFifo[(out_step_ - slice_steps_) % NCCL_STEPS].size,
			       __ATOMIC_ACQUIRE) == -1;
	}

      private:
	ncclConnInfo *in_, *out_;
	uint64_t in_step_ = 0, out_step_ = 0;
	const int slice_steps_;
	const size_t step_bytes_;

	static char *place_of(const ncclConnInfo *conn, uint64_t step)
	{
		const ncclConnFifo *fifo = conn->connFifo;
		char *places = conn->buffs[NCCL_PROTO_SIMPLE];

		if (fifo && fifo[step % NCCL_STEPS].mode == NCCL_MODE_OFFSET)
			return places + fifo[step % NCCL_STEPS].offset;
		return places + step % NCCL_STEPS * conn->stepSize;
	}
};

class LowLatency
{
      public:
	static constexpr int id = NCCL_PROTO_LL;
	const int slices = 1;

	LowLatency(Block &block, ncclConnInfo *in, ncclConnInfo *out)
	    : in_(in), out_(out), in_step_(in ? in->step : 0), out_step_(out ? out->step : 0),
	      lines_(block.comm->buffSizes[NCCL_PROTO_LL] / NCCL_STEPS / sizeof(ncclLLFifoLine)),
	      got_(in ? lines_ : 0), put_(out ? lines_ : 0)
	{
	}
	~LowLatency()
	{
		if (in_)
			in_->step = in_step_;
		if (out_)
			out_->step = out_step_;
	}

	ssize_t slice_count(ssize_t count, size_t) const
	{
		return count;
	}

	/* Goes on where the last call has ended. */
	bool there(size_t bytes)
	{
		const uint64_t *line = lines_of(in_, in_step_)->v;

		for (; seen_ < (bytes + 7) / 8; seen_++) {
			const uint64_t low = load_count(line + 2 * seen_);
			const uint64_t high = load_count(line + 2 * seen_ + 1);

			if (low >> 32 != NCCL_LL_FLAG(in_step_ + 1) || high >> 32 != low >> 32)
				return false;
			got_[seen_] = (low & 0xffffffff) | high << 32;
		}
		return true;
	}
	const void *take(size_t) const
	{
		return got_.data();
	}
	void taken()
	{
		seen_ = 0;
		store_count(in_->head, ++in_step_);
	}

	bool room() const
	{
		return load_count(out_->head) + NCCL_STEPS > out_step_;
	}
	void *place(size_t bytes)
	{
		if (out_->connFifo)
			out_->connFifo[out_step_ % NCCL_STEPS].size =
				(ssize_t)(lines_for(bytes) * sizeof(ncclLLFifoLine));
		return put_.data();
	}
	void placed(size_t bytes)
	{
		const uint64_t flag = (uint64_t)NCCL_LL_FLAG(out_step_ + 1) << 32;
		uint64_t *line = lines_of(out_, out_step_)->v;

		for (size_t i = 0; i < lines_for(bytes); i++) {
			store_count(line + 2 * i, (put_[i] & 0xffffffff) | flag);
			store_count(line + 2 * i + 1, put_[i] >> 32 | flag);
		}
		out_step_++;
	}

      private:
	ncclConnInfo *in_, *out_;
	uint64_t in_step_, out_step_;
	const size_t lines_;
	std::vector<uint64_t> got_, put_;
	size_t seen_ = 0; /* lines of this step */

	/* All of a place's lines once before flags come round again. */
	size_t lines_for(size_t bytes) const
	{
		const bool clean = (out_step_ & NCCL_LL_CLEAN_MASK) == NCCL_LL_CLEAN_MASK;

		return clean ? lines_ : (bytes + 7) / 8;
	}
	ncclLLFifoLine *lines_of(const ncclConnInfo *conn, uint64_t step) const
	{
		return (ncclLLFifoLine *)conn->buffs[NCCL_PROTO_LL] + step % NCCL_STEPS * lines_;
	}
};

#endif
