/* SPDX-License-Identifier: Apache-2.0 */
/* Async events, and descriptors that signal events to fetch. */
#include "fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

/* Set and cleared with the lock only, so neither call can block. */
void notice_set(struct notice *notice, bool raised)
{
	uint64_t value = 1;
	ssize_t done;

	if (notice->raised == raised)
		return;
	notice->raised = raised;
	done = raised ? write(notice->fd, &value, sizeof(value))
		      : read(notice->fd, &value, sizeof(value));
	(void)done;
}

int notice_await(const struct notice *notice)
{
	struct pollfd fd = { .fd = notice->fd, .events = POLLIN };

	fake_lock();
	while (!notice->raised) {
		fake_unlock();
		if (fcntl(notice->fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		if (poll(&fd, 1, -1) < 0)
			return -1;
		fake_lock();
	}
	return 0;
}

static bool about_qp(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_COMM_EST ||
	       type == IBV_EVENT_SQ_DRAINED;
}

static const void *subject(const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR)
		return event->element.cq;
	return about_qp(event->event_type) ? event->element.qp : NULL;
}

/* The number of fetched events for which a destroy has to wait. */
static uint32_t *fetched(const struct ibv_async_event *event)
{
	if (event->event_type == IBV_EVENT_CQ_ERR)
		return &((struct fake_cq *)(void *)event->element.cq)->async_events;
	return about_qp(event->event_type) ? &qp_of(event->element.qp)->async_events : NULL;
}

void event_raise(struct ibv_context *ibv_context, struct ibv_async_event what)
{
	struct fake_context *context = context_of(ibv_context);
	struct fake_event *event = calloc(1, sizeof(*event));

	if (!event)
		abort();
	event->event = what;
	STAILQ_INSERT_TAIL(&context->events, event, next);
	notice_set(&context->notice, true);
	fake.counts.events++;
}

void event_port(const struct fake_device *device, enum ibv_event_type type, int port)
{
	struct fake_context *context;

	LIST_FOREACH(context, &fake.contexts, next)
	if (context->context.device == &device->device)
		event_raise(&context->context,
			    (struct ibv_async_event){ .event_type = type,
						      .element.port_num = port });
}

void event_qp(struct fake_qp *qp, enum ibv_event_type type)
{
	event_raise(qp->qp.context,
		    (struct ibv_async_event){ .event_type = type, .element.qp = &qp->qp });
}

/* Discards events about `object`; NULL = all. */
void events_purge(struct ibv_context *ibv_context, const void *object)
{
	struct fake_context *context = context_of(ibv_context);
	struct fake_event *event = STAILQ_FIRST(&context->events), *next;

	for (; event; event = next) {
		next = STAILQ_NEXT(event, next);
		if (object && subject(&event->event) != object)
			continue;
		STAILQ_REMOVE(&context->events, event, fake_event, next);
		free(event);
	}
	notice_set(&context->notice, !STAILQ_EMPTY(&context->events));
}

int ibv_get_async_event(struct ibv_context *ibv_context, struct ibv_async_event *out)
{
	struct fake_context *context = context_of(ibv_context);
	struct fake_event *event;

	if (notice_await(&context->notice))
		return -1;
	event = STAILQ_FIRST(&context->events);
	STAILQ_REMOVE_HEAD(&context->events, next);
	notice_set(&context->notice, !STAILQ_EMPTY(&context->events));
	*out = event->event;
	if (fetched(out))
		++*fetched(out);
	fake_unlock();
	free(event);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	fake_lock();
	if (fetched(event)) {
		--*fetched(event);
		fake_acked();
	}
	fake_unlock();
}
