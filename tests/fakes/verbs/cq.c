/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and completion channels. */
#include "fake.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define YIELD 1000 /* empty polls of a thread between two yields, which may take long */

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
	return (struct fake_cq *)(void *)cq;
}

static struct fake_channel *channel_of(struct ibv_comp_channel *channel)
{
	return (struct fake_channel *)(void *)channel;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *channel = calloc(1, sizeof(*channel));
	int ret = ENOMEM;

	if (!channel) {
		errno = ret;
		return NULL;
	}
	fake_lock();
	ret = fault_call("create_comp_channel", context->device);
	channel->notice.fd = ret ? -1 : eventfd(0, EFD_CLOEXEC);
	if (channel->notice.fd < 0) {
		ret = ret ? ret : errno;
		free(channel);
	} else {
		STAILQ_INIT(&channel->ready);
		channel->channel.context = context;
		channel->channel.fd = channel->notice.fd;
		context_of(context)->users++;
		fake.counts.channels++;
	}
	fake_unlock();
	errno = ret;
	return ret ? NULL : &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
	struct fake_channel *channel = channel_of(ibv_channel);
	int ret = 0;

	fake_lock();
	if (channel->users) {
		ret = EBUSY;
	} else {
		close(channel->notice.fd);
		context_of(ibv_channel->context)->users--;
		fake.counts.channels--;
		free(channel);
	}
	fake_unlock();
	return ret;
}

static int cq_refusal(struct ibv_context *context, int cqe, int vector)
{
	const struct fake_device *device = device_of(context);
	int ret = fault_call("create_cq", context->device);

	if (ret)
		return ret;
	if (device->dead)
		return EIO;
	return cqe < 1 || cqe > device->max_cqe || vector < 0 || vector >= context->num_comp_vectors
		       ? EINVAL
		       : 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq = NULL;
	int ret;

	fake_lock();
	ret = cq_refusal(context, cqe, comp_vector);
	if (!ret) {
		cq = calloc(1, sizeof(*cq));
		if (cq)
			cq->ring = calloc((size_t)cqe, sizeof(*cq->ring));
		ret = cq && cq->ring ? 0 : ENOMEM;
	}
	if (!ret) {
		cq->cq.context = context;
		cq->cq.channel = channel;
		cq->cq.cq_context = cq_context;
		cq->cq.cqe = cqe;
		if (channel)
			channel_of(channel)->users++;
		context_of(context)->users++;
		fake.counts.cqs++;
	}
	fake_unlock();
	if (!ret)
		return &cq->cq;
	free(cq);
	errno = ret;
	return NULL;
}

static void unnotify(struct fake_cq *cq)
{
	struct fake_channel *channel = channel_of(cq->cq.channel);

	if (!cq->notified)
		return;
	cq->notified = 0;
	STAILQ_REMOVE(&channel->ready, cq, fake_cq, ready);
	notice_set(&channel->notice, !STAILQ_EMPTY(&channel->ready));
}

int ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct fake_cq *cq = cq_of(ibv_cq);

	fake_lock();
	if (cq->users) {
		fake_unlock();
		return EBUSY;
	}
	events_purge(ibv_cq->context, ibv_cq);
	unnotify(cq);
	while (cq->comp_events || cq->async_events)
		fake_wait_acks();
	if (ibv_cq->channel)
		channel_of(ibv_cq->channel)->users--;
	context_of(ibv_cq->context)->users--;
	fake.counts.cqs--;
	fake_unlock();
	free(cq->ring);
	free(cq);
	return 0;
}

static void notify(struct fake_cq *cq)
{
	struct fake_channel *channel = channel_of(cq->cq.channel);

	cq->armed = false;
	if (!channel)
		return;
	if (!cq->notified++)
		STAILQ_INSERT_TAIL(&channel->ready, cq, ready);
	notice_set(&channel->notice, true);
}

static void overrun(struct fake_cq *cq)
{
	struct fake_qp *qp;

	cq->overrun = true;
	event_raise(cq->cq.context, (struct ibv_async_event){ .event_type = IBV_EVENT_CQ_ERR,
							      .element.cq = &cq->cq });
	LIST_FOREACH(qp, &fake.qps, next)
	{
		if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET ||
		    (qp->qp.send_cq != &cq->cq && qp->qp.recv_cq != &cq->cq))
			continue;
		event_qp(qp, IBV_EVENT_QP_FATAL);
		qp_error(qp);
	}
}

void cq_push(struct ibv_cq *ibv_cq, const struct fake_cqe *cqe)
{
	struct fake_cq *cq = cq_of(ibv_cq);

	if (cq->overrun)
		return;
	if (cq->count == (uint32_t)ibv_cq->cqe) {
		overrun(cq);
		return;
	}
	cq->ring[(cq->head + cq->count) % (uint32_t)ibv_cq->cqe] = *cqe;
	__atomic_store_n(&cq->count, cq->count + 1, __ATOMIC_RELAXED);
	fake.counts.completions++;
	fake.counts.failed_completions += cqe->wc.status != IBV_WC_SUCCESS;
	if (cq->armed && (!cq->solicited_only || cqe->solicited || cqe->wc.status))
		notify(cq);
}

/* Without completions of a destroyed QP, which could not be attributed. */
void cq_purge(struct ibv_cq *ibv_cq, const struct fake_qp *qp)
{
	struct fake_cq *cq = cq_of(ibv_cq);
	uint32_t kept = 0, size = (uint32_t)ibv_cq->cqe;

	for (uint32_t i = 0; i < cq->count; i++) {
		const struct fake_cqe *cqe = &cq->ring[(cq->head + i) % size];

		if (cqe->qp != qp)
			cq->ring[(cq->head + kept++) % size] = *cqe;
	}
	__atomic_store_n(&cq->count, kept, __ATOMIC_RELAXED);
}

/* Polling an empty queue takes no lock: it would order unrelated threads, and ThreadSanitizer would detect less. */
int cq_poll(struct ibv_cq *ibv_cq, int count, struct ibv_wc *wcs)
{
	static _Thread_local unsigned polls;
	struct fake_cq *cq = cq_of(ibv_cq);
	int done = 0;

	__atomic_add_fetch(&fake.polls, 1, __ATOMIC_RELAXED);
	if (!__atomic_load_n(&cq->count, __ATOMIC_RELAXED)) {
		__atomic_add_fetch(&fake.empty_polls, 1, __ATOMIC_RELAXED);
		if (!(++polls % YIELD))
			sched_yield(); /* to the engine thread, which plays the adapter */
		return 0;
	}
	fake_lock();
	if (fault_call("poll_cq", ibv_cq->context->device))
		done = -1;
	for (; done >= 0 && done < count && cq->count; done++) {
		const struct fake_cqe *cqe = &cq->ring[cq->head];

		wcs[done] = cqe->wc;
		cqe->qp->sq_slots -= cqe->send_slots;
		cqe->qp->rq_slots -= cqe->recv_slots;
		cq->head = (cq->head + 1) % (uint32_t)ibv_cq->cqe;
		__atomic_store_n(&cq->count, cq->count - 1, __ATOMIC_RELAXED);
	}
	fake_unlock();
	return done;
}

int cq_notify(struct ibv_cq *ibv_cq, int solicited_only)
{
	struct fake_cq *cq = cq_of(ibv_cq);

	fake_lock();
	/* A request for all completions is not narrowed by a later one. */
	cq->solicited_only = solicited_only && (!cq->armed || cq->solicited_only);
	cq->armed = true;
	fake_unlock();
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv_channel, struct ibv_cq **out, void **context)
{
	struct fake_channel *channel = channel_of(ibv_channel);
	struct fake_cq *cq;

	if (notice_await(&channel->notice))
		return -1;
	cq = STAILQ_FIRST(&channel->ready);
	if (!--cq->notified)
		STAILQ_REMOVE_HEAD(&channel->ready, ready);
	notice_set(&channel->notice, !STAILQ_EMPTY(&channel->ready));
	cq->comp_events++;
	*out = &cq->cq;
	*context = cq->cq.cq_context;
	fake_unlock();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *ibv_cq, unsigned int nevents)
{
	fake_lock();
	cq_of(ibv_cq)->comp_events -= nevents;
	fake_acked();
	fake_unlock();
}
