/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending half of a QP. Work requests are sent in order. A reply that will never come is known at once (OUT_LOST),
 * and the timer runs only for those: a peer whose thread is slow is not a lossy network. After the time-out everything
 * from the oldest on is retransmitted.
 */
#include "fake.h"

#include <string.h>

/* In flight to another process at once. */
#define WINDOW_REQUESTS 16u
#define WINDOW_BYTES    (4u << 20)

#define TIMEOUT_BASE_NS 4096ull
#define WAIT_MIN_NS     NS_PER_MS
#define RNR_FOREVER     7

static struct fake_wqe *wqe_at(struct fake_qp *qp, uint32_t position)
{
	return &qp->sq[position % qp->init.cap.max_send_wr];
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	if (opcode == IBV_WR_RDMA_READ)
		return IBV_WC_RDMA_READ;
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND
								       : IBV_WC_RDMA_WRITE;
}

/* Removes the oldest from the queue. In a failed completion only ID, status and QP number are valid. */
static void complete(struct fake_qp *qp, enum ibv_wc_status status)
{
	const struct fake_wqe *wqe = wqe_at(qp, qp->sq_head);
	struct fake_cqe cqe = {
		.wc = { .wr_id = wqe->id,
			.status = status,
			.opcode = status ? (enum ibv_wc_opcode)0x5a : wc_opcode(wqe->opcode),
			.byte_len = status ? UINT32_MAX : (uint32_t)wqe->length,
			.vendor_err = status ? 0xfa : 0,
			.qp_num = qp->qp.qp_num },
		.qp = qp,
		.send_slots = qp->unreported + 1,
	};

	if (qp->sq_next == qp->sq_head)
		qp->sq_next++;
	qp->sq_head++;
	if (!status && !(wqe->flags & IBV_SEND_SIGNALED)) {
		qp->unreported++;
		return;
	}
	qp->unreported = 0;
	cq_push(qp->qp.send_cq, &cqe);
}

void requester_flush(struct fake_qp *qp)
{
	while (qp->sq_head != qp->sq_tail)
		complete(qp, IBV_WC_WR_FLUSH_ERR);
}

static void fail(struct fake_qp *qp, enum ibv_wc_status status)
{
	complete(qp, status);
	qp_error(qp);
}

static void wait_for(struct fake_qp *qp, enum qp_wait what, uint64_t ns)
{
	qp->wait = what;
	qp->wake_ns = now_ns() + (ns < WAIT_MIN_NS ? WAIT_MIN_NS : ns);
	engine_wake();
}

/* Retransmits from the oldest on. */
static void go_back(struct fake_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_next; i++)
		if (wqe_at(qp, i)->state != WQE_DONE)
			wqe_at(qp, i)->state = WQE_QUEUED;
	fake.counts.retransmissions += qp->sq_next - qp->sq_head;
	qp->sq_next = qp->sq_head;
	qp->attempt++;
}

static void settle(struct fake_qp *qp)
{
	const struct fake_wqe *oldest;

	while (qp->sq_head != qp->sq_next && wqe_at(qp, qp->sq_head)->state == WQE_DONE)
		complete(qp, IBV_WC_SUCCESS);
	oldest = wqe_at(qp, qp->sq_head);
	if (qp->state == IBV_QPS_RTS && qp->sq_head != qp->sq_next && oldest->state == WQE_LOST &&
	    qp->wait == WAIT_NOTHING && qp->attr.timeout)
		wait_for(qp, WAIT_RETRY, (TIMEOUT_BASE_NS << qp->attr.timeout) / fake.hurry);
}

#if defined(__SANITIZE_THREAD__)
void __tsan_read_range(void *addr, unsigned long bytes);
#endif

/* An application that changes data in flight races with the fake: ThreadSanitizer is told this much. */
static void tell_read(const struct span *spans, int count)
{
#if defined(__SANITIZE_THREAD__)
	for (int i = 0; i < count; i++)
		__tsan_read_range(spans[i].at, spans[i].bytes);
#else
	(void)spans;
	(void)count;
#endif
}

/* The port's MTU has become smaller than that of the queue pair, and the packet is longer. */
static bool is_too_long(const struct fake_qp *qp, const struct fake_wqe *wqe)
{
	int mtu = qp->device->ports[qp->attr.port_num - 1].mtu;

	return (int)qp->attr.path_mtu > mtu && wqe->length > 128u << mtu;
}

static void deliver(struct fake_qp *qp, struct fake_wqe *wqe)
{
	struct request request = request_of(qp, wqe);
	struct span payload[SGE_MAX];
	struct reply reply = { .outcome = OUT_LOST, .psn = wqe->psn, .attempt = qp->attempt };
	int count = wqe_spans(qp, wqe, payload);

	qp->muted = request.mute;
	wqe->state = WQE_PENDING;
	if (wqe->opcode == IBV_WR_RDMA_READ || !wqe->length)
		payload[0] = (struct span){ .at = NULL, .bytes = 0 };
	else {
		tell_read(payload, count);
		gpu_read(payload, count);
	}
	if (wqe->lost || wqe->drops) {
		wqe->drops -= wqe->drops > 0;
	} else if (!is_too_long(qp, wqe) && request_can_leave(qp, &request.to)) {
		request_carry(&request, payload, &reply);
	}
	requester_reply(qp, &reply);
}

/* The peer answers in order, so requests behind a slow READ wait for it. */
static bool answer_is_late(struct fake_qp *qp, struct fake_wqe *wqe, uint32_t position)
{
	const struct fake_wqe *before = wqe_at(qp, position - 1);

	if (position != qp->sq_head && before->state != WQE_DONE &&
	    before->answer_ns > wqe->answer_ns)
		wqe->answer_ns = before->answer_ns;
	return now_ns() < wqe->answer_ns;
}

static uint64_t reads_in_flight(struct fake_qp *qp)
{
	uint64_t reads = 0;

	for (uint32_t i = qp->sq_head; i != qp->sq_next; i++)
		reads += wqe_at(qp, i)->opcode == IBV_WR_RDMA_READ;
	return reads;
}

/* A wait for an answer, late or lost, ends by the time-out. */
static void transmit(struct fake_qp *qp, struct fake_wqe *wqe, uint32_t position)
{
	uint64_t reads = reads_in_flight(qp);

	fake.counts.transmissions++;
	if (reads > fake.counts.reads_at_once)
		fake.counts.reads_at_once = reads;
	if (!answer_is_late(qp, wqe, position)) {
		deliver(qp, wqe);
		return;
	}
	wqe->state = WQE_LOST;
	settle(qp);
	engine_wake();
}

static struct fake_wqe *oldest_late(struct fake_qp *qp)
{
	for (uint32_t i = qp->sq_head; i != qp->sq_next; i++)
		if (wqe_at(qp, i)->state == WQE_LOST && wqe_at(qp, i)->answer_ns)
			return wqe_at(qp, i);
	return NULL;
}

/* Handles those that are due. Returns when the next one is. */
static uint64_t answer(struct fake_qp *qp, uint64_t now)
{
	struct fake_wqe *wqe;

	while (qp->state == IBV_QPS_RTS && (wqe = oldest_late(qp))) {
		if (wqe->answer_ns > now)
			return wqe->answer_ns;
		wqe->answer_ns = 0;
		if (qp->wait == WAIT_RETRY)
			qp->wait = WAIT_NOTHING;
		deliver(qp, wqe);
	}
	return NEVER;
}

/* Requests are still sent while an answer is late, but not while one is lost. */
static bool is_waiting(struct fake_qp *qp)
{
	return qp->wait != WAIT_NOTHING &&
	       !(qp->wait == WAIT_RETRY && wqe_at(qp, qp->sq_head)->answer_ns);
}

static bool may_send(struct fake_qp *qp)
{
	uint64_t bytes = 0, reads;

	if (qp->state != IBV_QPS_RTS || is_waiting(qp) || qp->sq_next == qp->sq_tail)
		return false;
	for (uint32_t i = qp->sq_head; i != qp->sq_next; i++)
		bytes += wqe_at(qp, i)->length;
	reads = reads_in_flight(qp);
	if (reads && reads >= qp->attr.max_rd_atomic &&
	    wqe_at(qp, qp->sq_next)->opcode == IBV_WR_RDMA_READ)
		return false;
	return qp->sq_next - qp->sq_head < WINDOW_REQUESTS && bytes < WINDOW_BYTES;
}

/* The end of a WRITE arrives first. Its errors are detected with the rest. */
static void transmit_end(const struct fake_qp *qp, const struct fake_wqe *wqe)
{
	struct request request = request_of(qp, wqe);
	struct span payload[SGE_MAX];
	struct reply unused;

	request.torn = true;
	if (wqe_spans(qp, wqe, payload) < 0 || !request_can_leave(qp, &request.to))
		return;
	request_carry(&request, payload, &unused);
}

static bool is_write(const struct fake_wqe *wqe)
{
	return wqe->opcode == IBV_WR_RDMA_WRITE && wqe->length <= 256; /* one packet */
}

/*
 * The WRITE behind it is in memory before it. On ports with adaptive routing packets take several paths, and an mlx5
 * adapter places those of WRITEs as they arrive; what completes a receive waits for all before it (NCCL sends WRITE and
 * then WRITE WITH IMM for that reason: src/transport/net_ib/p2p.cc@v2.30.7, NCCL_IB_AR_THRESHOLD).
 */
static void let_overtake(struct fake_qp *qp, struct fake_wqe *wqe)
{
	uint32_t behind = qp->sq_next + 1;
	struct span payload[SGE_MAX];
	struct request request;
	struct fake_wqe *next;
	struct reply unused;

	wqe->overtaken = false;
	if (behind == qp->sq_tail)
		return;
	next = wqe_at(qp, behind);
	request = request_of(qp, next);
	request.ahead = true;
	if (!is_write(wqe) || !is_write(next) || next->begun || wqe_spans(qp, next, payload) < 0 ||
	    !request_can_leave(qp, &request.to))
		return;
	next->begun = true;
	request_carry(&request, payload, &unused);
}

/* Before the first transmission: applies the faults. False = not now. */
static bool begin(struct fake_qp *qp, struct fake_wqe *wqe)
{
	uint64_t hold_ns = 0;

	if (!wqe->begun) {
		wqe->begun = true;
		fault_on_send(qp, wqe, &hold_ns);
		if (wqe->torn && qp->state == IBV_QPS_RTS) {
			transmit_end(qp, wqe);
			hold_ns += WAIT_MIN_NS;
		}
		if (wqe->overtaken) /* something may follow */
			hold_ns += WAIT_MIN_NS;
	} else if (wqe->overtaken) {
		let_overtake(qp, wqe);
		hold_ns += WAIT_MIN_NS; /* long enough to be visible */
	}
	if (hold_ns)
		wait_for(qp, WAIT_TURN, hold_ns);
	return qp->state == IBV_QPS_RTS && !hold_ns;
}

void requester_run(struct fake_qp *qp)
{
	while (may_send(qp)) {
		struct fake_wqe *wqe = wqe_at(qp, qp->sq_next);
		enum ibv_wc_status status;

		if (wqe->state == WQE_DONE) { /* its reply overtook the go-back */
			qp->sq_next++;
			settle(qp);
			continue;
		}
		if (!begin(qp, wqe))
			return;
		status = wqe_local_status(qp, wqe);
		if (status) {
			if (qp->sq_head == qp->sq_next)
				fail(qp, status);
			return; /* otherwise when the earlier ones are done */
		}
		transmit(qp, wqe, qp->sq_next++);
	}
}

/* The data of a READ is stored, if its memory still exists. */
static bool read_arrives(const struct fake_qp *qp, const struct fake_wqe *wqe,
			 const struct reply *reply)
{
	struct span to[SGE_MAX], from = { .bytes = (size_t)reply->length };

	if (wqe->opcode != IBV_WR_RDMA_READ || !wqe->length)
		return true;
	/* not written, but a span is for both directions */
	memcpy(&from.at, &reply->data, sizeof(from.at));
	if (wqe_spans(qp, wqe, to) < 0)
		return false;
	dma_copy(to, &from, wqe->length);
	return true;
}

static void on_rnr(struct fake_qp *qp, unsigned timer)
{
	/* in units of 10 us (InfiniBand specification, 9.7.5.2.8) */
	static const unsigned times[] = { 65536, 1,    2,    3,     4,     6,     8,     12,
					  16,    24,   32,   48,    64,    96,    128,   192,
					  256,   384,  512,  768,   1024,  1536,  2048,  3072,
					  4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

	fake.counts.rnr++;
	if (qp->attr.rnr_retry != RNR_FOREVER && qp->rnr_retries++ >= qp->attr.rnr_retry) {
		fail(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	go_back(qp);
	wait_for(qp, WAIT_RNR, times[timer % 32] * 10000ull);
}

static void on_ack(struct fake_qp *qp, struct fake_wqe *wqe, const struct reply *reply)
{
	if (!read_arrives(qp, wqe, reply)) {
		wqe->state = WQE_QUEUED;
		wqe->status = IBV_WC_LOC_PROT_ERR;
		go_back(qp);
		return;
	}
	wqe->state = WQE_DONE;
	qp->retries = qp->rnr_retries = 0;
}

/* Replies to an earlier attempt do not count, unless they report completion. */
void requester_reply(struct fake_qp *qp, const struct reply *reply)
{
	uint32_t i = qp->sq_head;
	struct fake_wqe *wqe;

	while (i != qp->sq_tail && wqe_at(qp, i)->psn != reply->psn)
		i++;
	wqe = wqe_at(qp, i);
	if (qp->state != IBV_QPS_RTS || i == qp->sq_tail || wqe->state == WQE_DONE ||
	    (reply->outcome != OUT_ACK && reply->attempt != qp->attempt))
		return;
	switch (reply->outcome) {
	case OUT_ACK:
		on_ack(qp, wqe, reply);
		break;
	case OUT_LOST:
		wqe->state = WQE_LOST;
		fake.counts.lost++;
		break;
	case OUT_RNR:
		on_rnr(qp, reply->rnr_timer);
		break;
	case OUT_NAK:
		fail(qp, reply->status);
		break;
	case OUT_PENDING:
		break;
	}
	settle(qp);
}

void requester_cut_off(uint32_t slot)
{
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	{
		if (qp->state != IBV_QPS_RTS || qp->attr.dest_qp_num >> SLOT_SHIFT != slot)
			continue;
		for (uint32_t i = qp->sq_head; i != qp->sq_next; i++)
			if (wqe_at(qp, i)->state == WQE_PENDING)
				wqe_at(qp, i)->state = WQE_LOST;
		settle(qp);
	}
}

static void wake(struct fake_qp *qp)
{
	bool endless = qp->device->endless && qp->attr.retry_cnt == RETRIES_MAX;
	enum qp_wait was = qp->wait;

	qp->wait = WAIT_NOTHING;
	if (was == WAIT_RETRY && qp->retries++ >= qp->attr.retry_cnt && !endless) {
		fail(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	if (was == WAIT_RETRY)
		go_back(qp);
	requester_run(qp);
	settle(qp);
}

uint64_t requester_timers(void)
{
	uint64_t now = now_ns(), next = NEVER, late;
	struct fake_qp *qp;

	LIST_FOREACH(qp, &fake.qps, next)
	{
		late = answer(qp, now);
		if (qp->wait != WAIT_NOTHING && qp->wake_ns <= now)
			wake(qp);
		else
			requester_run(qp);
		if (late < next)
			next = late;
		if (qp->wait != WAIT_NOTHING && qp->wake_ns < next)
			next = qp->wake_ns;
	}
	return next;
}
