/* SPDX-License-Identifier: Apache-2.0 */
/* Async events; see ib_events.h. */
#include "device/ib_events.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include <nccl_net/log.h>

#include "base/fd.h"
#include "base/libc_text.h"
#include "base/os.h"
#include "device/carrier.h"

#define EVENTS_PER_TURN 8
#define RETRY_MS        1000 /* between attempts to read a port */
#define AT_ONCE         1    /* a time that has passed */

static struct {
	pthread_mutex_t lock; /* held while the set is made */
	int epfd; /* epoll set of the nics' async_fd and the CM's descriptor; negative = none, the -errno */
	bool (*read_cm)(bool wait);
} events = { .lock = PTHREAD_MUTEX_INITIALIZER, .epfd = -ENODEV };

static int add(int epfd, struct ib_nic *nic)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = nic };
	int fd = nic->context->async_fd, flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ||
	    (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST))
		return -errno;
	return 0;
}

int ib_events_fd(void)
{
	struct ib_nic *nic;
	int epfd;

	pthread_mutex_lock(&events.lock);
	if (events.epfd < 0 && ib_nic_on_offer()) {
		events.epfd = fd_note(epoll_create1(EPOLL_CLOEXEC));
		for (int i = 0; events.epfd >= 0 && (nic = ib_nic_opened(i)); i++)
			add(events.epfd, nic);
	}
	epfd = events.epfd;
	pthread_mutex_unlock(&events.lock);
	return epfd;
}

static void watch(struct ib_nic *nic)
{
	int epfd, ret;

	/* First: what an event says afterwards is newer. */
	carrier_set_port(nic->dev, ib_nic_attr(nic).state != IBV_PORT_ACTIVE);
	epfd = ib_events_fd();
	ret = epfd < 0 ? epfd : add(epfd, nic);
	if (ret)
		anynet_info("dev %s: without asynchronous events failures are detected later: %s",
			    nic->dev->name, error_text(-ret));
}

struct ib_nic *ib_events_open(const struct anynet_device *dev, char *why, size_t why_bytes)
{
	bool is_new;
	struct ib_nic *nic = ib_nic_open(dev, &is_new, why, why_bytes);

	if (is_new)
		watch(nic);
	return nic;
}

int ib_events_watch_cm(int fd, bool (*read)(bool wait))
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

	events.read_cm = read;
	return epoll_ctl(ib_events_fd(), EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* All queue pairs of the nic have failed for good. If the device comes back, it is opened again as another nic. */
static bool device_failed(struct ib_nic *nic, const char *what)
{
	epoll_ctl(events.epfd, EPOLL_CTL_DEL, nic->context->async_fd, NULL);
	atomic_fetch_add(&nic->downs, 1);
	carrier_set_port(nic->dev, true);
	if (!atomic_exchange(&nic->failed, true))
		anynet_info("dev %s: %s %s; its traffic uses another path", nic->dev->name,
			    nic->verbs_name, what);
	return true;
}

/* `failed` NULL: the queue pair of flushes (ib_flush.c), which notices by its next completion. */
static bool qp_failed(struct ib_nic *nic, _Atomic bool *failed, const char *what)
{
	if (!failed)
		return false;
	anynet_info("dev %s: %s; it is replaced", nic->dev->name, what);
	atomic_store(failed, true);
	return true;
}

static void set_port(struct ib_nic *nic, bool lost)
{
	if (lost != carrier_port_is_down(nic->dev))
		anynet_info("dev %s: port %u of %s is %s", nic->dev->name, nic->port,
			    nic->verbs_name, lost ? "down; its traffic uses another path" : "up again");
	carrier_set_port(nic->dev, lost);
}

/* Only marks the port for ib_events_settle: the query may take seconds while its network interface goes up or down. */
static bool port_changed(struct ib_nic *nic, const struct ibv_async_event *event)
{
	bool lost = event->event_type == IBV_EVENT_PORT_ERR;

	if (event->element.port_num != nic->port)
		return false;
	ib_silent_forget(nic);
	if (lost) {
		atomic_fetch_add(&nic->downs, 1);
		set_port(nic, true);
	} else {
		atomic_store(&nic->told, true);
		ib_events_reread(nic);
	}
	return lost;
}

void ib_events_reread(struct ib_nic *nic)
{
	atomic_store(&nic->reread_ms, AT_ONCE);
}

static bool is_due(const struct ib_nic *nic)
{
	uint64_t at = atomic_load(&nic->reread_ms);

	return at && !atomic_load(&nic->failed) && os_now_ms() >= at;
}

bool ib_events_stale(void)
{
	struct ib_nic *nic;

	for (int i = 0; (nic = ib_nic_opened(i)); i++)
		if (is_due(nic))
			return true;
	return false;
}

/* True = comms should look at the nic. A port that cannot be read stays what it was. */
static bool settle(struct ib_nic *nic)
{
	bool was_down = carrier_port_is_down(nic->dev);
	unsigned downs = atomic_load(&nic->downs);
	uint64_t none = 0;
	int ret;

	atomic_store(&nic->reread_ms, 0);
	ret = ib_nic_refresh(nic);
	/* No event needs to follow: irdma's come before the carrier does. One that has come meanwhile counts. */
	if (ret)
		atomic_compare_exchange_strong(&nic->reread_ms, &none, os_now_ms() + RETRY_MS);
	if (ret == -EIO)
		return false;
	set_port(nic, ret == -ENETDOWN);
	/* It may have been read before it went down. */
	if (atomic_load(&nic->downs) != downs)
		set_port(nic, true);
	return atomic_exchange(&nic->told, false) || (was_down && !carrier_port_is_down(nic->dev));
}

bool ib_events_settle(void)
{
	bool changed = false;
	struct ib_nic *nic;

	for (int i = 0; (nic = ib_nic_opened(i)); i++)
		changed |= is_due(nic) && settle(nic);
	return changed;
}

/* True = comms should look at the nic. */
static bool take(struct ib_nic *nic, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		return port_changed(nic, event);
	case IBV_EVENT_DEVICE_FATAL:
		return device_failed(nic, "has failed (DEVICE_FATAL)");
	case IBV_EVENT_QP_FATAL:
		return qp_failed(nic, event->element.qp->qp_context, "a queue pair has failed");
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return qp_failed(nic, event->element.qp->qp_context,
				   "a queue pair received an invalid request");
	case IBV_EVENT_CQ_ERR:
		return qp_failed(nic, event->element.cq->cq_context,
				   "a completion queue has failed");
	default:
		return false;
	}
}

static bool take_all(struct ib_nic *nic)
{
	struct ibv_async_event event;
	bool changed = false;

	errno = 0;
	while (!atomic_load(&nic->failed) && !nic->verbs->get_async_event(nic->context, &event)) {
		changed |= take(nic, &event);
		/* After this, the queue pair or completion queue of the event may be freed. */
		nic->verbs->ack_async_event(&event);
		errno = 0;
	}
	if (errno && errno != EAGAIN && errno != EINTR)
		changed |= device_failed(nic, "was removed");
	return changed;
}

bool ib_events_read(void)
{
	struct epoll_event ready[EVENTS_PER_TURN];
	int n = epoll_wait(events.epfd, ready, EVENTS_PER_TURN, 0);
	bool changed = false;

	for (int i = 0; i < n; i++)
		changed |= ready[i].data.ptr ? take_all(ready[i].data.ptr) : events.read_cm(true);
	return changed;
}
