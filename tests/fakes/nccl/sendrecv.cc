/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives of one batch, one channel's part of each (src/device/sendrecv.h). */
#include <memory>

#include "kernels.hh"

namespace
{

/* One direction of one work. Steps of Simple are chunks of p2pChunkSize at most. */
class Transfer
{
      public:
	virtual ~Transfer() = default;
	/* As far as it can without waiting; true once it is done. */
	virtual bool advance(bool *moved) = 0;
};

template <typename Protocol> class TransferOver : public Transfer
{
      public:
	template <typename... Args>
	TransferOver(bool sending, void *data, size_t bytes, size_t chunk, Args &&...args)
	    : protocol_(std::forward<Args>(args)...), sending_(sending), at_((char *)data),
	      left_(bytes), chunk_(chunk)
	{
	}

	bool advance(bool *moved) override
	{
		while (!done_) {
			const size_t n = std::min(chunk_, left_);

			if (sending_ ? !protocol_.room() : !protocol_.there(n))
				return false;
			if (sending_) {
				memcpy(protocol_.place(n), at_, n);
				protocol_.placed(n);
			} else {
				memcpy(at_, protocol_.take(n), n);
				protocol_.taken();
			}
			at_ += n;
			left_ -= n;
			done_ = !left_;
			*moved = true;
		}
		return true;
	}

      private:
	Protocol protocol_;
	const bool sending_;
	char *at_;
	size_t left_;
	const size_t chunk_;
	bool done_ = false;
};

using Transfers = std::vector<std::unique_ptr<Transfer>>;

/* The user's buffer is registered with the net, which takes it from there or puts it there: steps are
 * only announced. */
class DirectTransfer : public Transfer
{
      public:
	DirectTransfer(bool sending, size_t bytes, Block &block, ncclConnInfo *in,
		       ncclConnInfo *out)
	    : protocol_(block, in, out, 1, 1, 0), sending_(sending), left_(bytes)
	{
		if (!sending_)
			protocol_.expect_direct();
	}

	bool advance(bool *moved) override
	{
		while (!done_) {
			const size_t n = std::min((size_t)NCCL_MAX_NET_SIZE, left_);

			if (sending_ ? !protocol_.room() : !protocol_.there(n))
				return false;
			if (sending_) {
				protocol_.place(n);
				protocol_.placed(n);
			} else {
				protocol_.taken();
			}
			left_ -= n;
			done_ = !left_;
			*moved = true;
		}
		if (sending_ && !protocol_.is_sent())
			return false; /* what comes after the kernel may write to it */
		*moved = true;
		return true;
	}

      private:
	Simple protocol_;
	const bool sending_;
	size_t left_;
	bool done_ = false;
};

void begin(Block &block, const ncclDevWorkP2p &work, bool sending, Transfers &transfers)
{
	const int parts = sending ? work.nSendChannels : work.nRecvChannels;
	const int part = (block.channel_id - work.channelBase) & (work.nP2pChannels - 1);
	const size_t bytes = sending ? work.sendBytes : work.recvBytes;
	const size_t chunk =
		u32fp8Decode(sending ? work.sendChunkSize_u32fp8 : work.recvChunkSize_u32fp8);
	ncclDevChannelPeer *peer = block.channel->peers[sending ? work.sendRank : work.recvRank];
	ncclConnInfo *in = sending ? nullptr : &peer->recv[1];
	ncclConnInfo *out = sending ? &peer->send[1] : nullptr;
	size_t first, end;

	if (part >= parts)
		return;
	if (sending ? work.sendIpcReg : work.recvIpcReg)
		cannot("registered buffer of peer", sending ? work.sendRank : work.recvRank);
	ncclP2pPartBounds(parts, part, bytes, &first, &end);
	char *data = (char *)(sending ? work.sendAddr : work.recvAddr) + first;
	if (sending ? work.sendNetReg : work.recvNetReg)
		transfers.push_back(
			std::make_unique<DirectTransfer>(sending, end - first, block, in, out));
	else if (sending ? work.sendProtoLL : work.recvProtoLL)
		transfers.push_back(std::make_unique<TransferOver<LowLatency>>(sending, data,
									       end - first, chunk,
									       block, in, out));
	else
		transfers.push_back(
			std::make_unique<TransferOver<Simple>>(sending, data, end - first, chunk,
							       block, in, out, 1, 1,
							       (size_t)block.comm->p2pChunkSize));
}

/* A rank's message to itself. */
void copy(const Block &block, const ncclDevWorkP2p &work)
{
	const int part = (block.channel_id - work.channelBase) & (work.nP2pChannels - 1);
	size_t first, end;

	if (part >= work.nSendChannels)
		return;
	ncclP2pPartBounds(work.nSendChannels, part, work.sendBytes, &first, &end);
	memmove((char *)work.recvAddr + first, (char *)work.sendAddr + first, end - first);
}

} // namespace

void run_send_recv(Block &block, std::vector<ncclDevWorkP2p> &works)
{
	Transfers transfers;

	for (const ncclDevWorkP2p &work : works) {
		if (work.sendRank == block.comm->rank) {
			copy(block, work);
			continue;
		}
		begin(block, work, true, transfers);
		begin(block, work, false, transfers);
	}
	while (!transfers.empty() && !block.aborted)
		block.wait([&] {
			bool moved = false;

			for (size_t i = 0; i < transfers.size();)
				if (transfers[i]->advance(&moved))
					transfers.erase(transfers.begin() + i);
				else
					i++;
			return moved;
		});
}
