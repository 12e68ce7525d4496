/* SPDX-License-Identifier: Apache-2.0 */
/* Link state by the kernel's events; see carrier.h. */
#include "device/carrier.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "device/nics.h"
#include "device/rtattr.h"

static int carrier_fd = -1;
static _Atomic bool down[ANYNET_DEVICES_MAX], port_down[ANYNET_DEVICES_MAX];
static _Atomic unsigned losses[ANYNET_DEVICES_MAX];

/* Is there an interface with the device's own number, by its last event? */
static bool exists[ANYNET_DEVICES_MAX];

int carrier_events_open(void)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK };

	carrier_fd =
		fd_note(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
	if (carrier_fd < 0)
		return carrier_fd;
	if (bind(carrier_fd, (struct sockaddr *)&addr, sizeof(addr))) {
		int err = -errno;

		carrier_events_close();
		return err;
	}
	return carrier_fd;
}

/* Assumes that all links are up; a dead path is found by its silence. True = one was down. */
static bool forget(void)
{
	bool changed = false;

	for (int i = 0; i < ANYNET_DEVICES_MAX; i++) {
		exists[i] = false;
		changed |= atomic_exchange(&down[i], false);
	}
	return changed;
}

void carrier_events_close(void)
{
	fd_close(&carrier_fd);
	forget();
}

/* Is it the interface of device `i`? One that has been removed comes back with its name, under another number: the driver
 * was loaded again, or a virtual function was made again. But one that was renamed leaves its name to others. */
static bool is_link_of(const struct anynet_device *dev, int i, unsigned index, const char *name)
{
	return dev->ifindex == index || (!exists[i] && *dev->ifname && !strcmp(name, dev->ifname));
}

static bool take_link(const struct nlmsghdr *msg)
{
	const struct ifinfomsg *info = (const void *)((const char *)msg + NLMSG_HDRLEN);
	bool removed = msg->nlmsg_type == RTM_DELLINK;
	bool now = removed || !(info->ifi_flags & IFF_UP) || !(info->ifi_flags & IFF_RUNNING),
	     changed = false;
	const struct rtattr *attrs[IFLA_IFNAME + 1];
	const struct anynet_device *dev;
	char name[IFNAMSIZ];

	/* A bridge reports that a port is removed from it. */
	if (info->ifi_family == AF_BRIDGE)
		return false;
	rtattr_parse(attrs, IFLA_IFNAME, (const void *)(info + 1), msg->nlmsg_len - NLMSG_LENGTH(sizeof(*info)));
	rtattr_text(attrs[IFLA_IFNAME], name, sizeof(name));
	for (int i = 0; i < ANYNET_DEVICES_MAX && (dev = nic_at(i)); i++) {
		if (!is_link_of(dev, i, (unsigned)info->ifi_index, name))
			continue;
		exists[i] = dev->ifindex == (unsigned)info->ifi_index && !removed;
		if (atomic_exchange(&down[i], now) != now) {
			atomic_fetch_add(&losses[i], now);
			changed = true;
		}
	}
	return changed;
}

static bool take_messages(char *buf, size_t bytes)
{
	struct nlmsghdr *msg;
	bool changed = false;

	for (size_t at = 0; at + sizeof(*msg) <= bytes; at += NLMSG_ALIGN(msg->nlmsg_len)) {
		msg = (void *)(buf + at);
		if (msg->nlmsg_len < sizeof(*msg) || msg->nlmsg_len > bytes - at)
			break;
		if ((msg->nlmsg_type == RTM_NEWLINK || msg->nlmsg_type == RTM_DELLINK) &&
		    msg->nlmsg_len >= NLMSG_LENGTH(sizeof(struct ifinfomsg)))
			changed |= take_link(msg);
	}
	return changed;
}

bool carrier_events_read(void)
{
	_Alignas(struct nlmsghdr) char buf[8192];
	bool changed = false;
	ssize_t n;

	while ((n = recv(carrier_fd, buf, sizeof(buf), 0)) > 0 || (n < 0 && errno == ENOBUFS))
		changed |= n > 0 ? take_messages(buf, (size_t)n)
				 : forget(); /* ENOBUFS: events were lost */
	return changed;
}

static bool is_listed(const struct anynet_device *dev)
{
	return dev->index >= 0 && dev->index < ANYNET_DEVICES_MAX;
}

bool carrier_interface_is_down(const struct anynet_device *dev)
{
	return is_listed(dev) && atomic_load(&down[dev->index]);
}

void carrier_set_port(const struct anynet_device *dev, bool lost)
{
	if (is_listed(dev) && atomic_exchange(&port_down[dev->index], lost) != lost)
		atomic_fetch_add(&losses[dev->index], lost);
}

bool carrier_port_is_down(const struct anynet_device *dev)
{
	return is_listed(dev) && atomic_load(&port_down[dev->index]);
}

bool carrier_is_lost(const struct anynet_device *dev)
{
	return carrier_interface_is_down(dev) || carrier_port_is_down(dev);
}

unsigned carrier_losses(const struct anynet_device *dev)
{
	return is_listed(dev) ? atomic_load(&losses[dev->index]) : 0;
}
