/* SPDX-License-Identifier: Apache-2.0 */
/* See netlink.h. */
#include "sim/netlink.h"
#include "sim/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
	size_t bytes;
	TAILQ_ENTRY(message) link;
	char data[];
};

struct netlink_file {
	struct sim_file file;
	TAILQ_HEAD(, message) queue;
	unsigned groups;
	struct sim_host *host;
	TAILQ_ENTRY(netlink_file) link; /* in the list of subscribers */
};

static TAILQ_HEAD(, netlink_file) hearers = TAILQ_HEAD_INITIALIZER(hearers);

static uint32_t netlink_poll(struct sim_file *file)
{
	return EPOLLOUT | (TAILQ_EMPTY(&((struct netlink_file *)file)->queue) ? 0u : EPOLLIN);
}

/* Reads one datagram; the part that does not fit is lost. */
static ssize_t netlink_read(struct sim_file *file, void *data, size_t bytes)
{
	struct netlink_file *netlink = (struct netlink_file *)file;
	struct message *message = TAILQ_FIRST(&netlink->queue);

	if (!message)
		return -EAGAIN;
	TAILQ_REMOVE(&netlink->queue, message, link);
	bytes = message->bytes < bytes ? message->bytes : bytes;
	memcpy(data, message->data, bytes);
	free(message);
	return (ssize_t)bytes;
}

static void netlink_release(struct sim_file *file)
{
	struct netlink_file *netlink = (struct netlink_file *)file;
	struct message *message;

	while ((message = TAILQ_FIRST(&netlink->queue))) {
		TAILQ_REMOVE(&netlink->queue, message, link);
		free(message);
	}
	if (netlink->groups)
		TAILQ_REMOVE(&hearers, netlink, link);
	free(netlink);
}

struct sim_file *netlink_new(void)
{
	static const struct sim_file_ops ops = { netlink_poll, netlink_read, NULL, netlink_release };
	struct netlink_file *netlink = calloc(1, sizeof(*netlink));

	if (!netlink)
		abort();
	file_init(&netlink->file, FILE_NETLINK, &ops);
	netlink->host = process_self()->host;
	TAILQ_INIT(&netlink->queue);
	return &netlink->file;
}

int netlink_bind(struct sim_file *file, unsigned groups)
{
	struct netlink_file *netlink = (struct netlink_file *)file;

	if (groups && !netlink->groups)
		TAILQ_INSERT_TAIL(&hearers, netlink, link);
	netlink->groups = groups;
	return 0;
}

/* --- messages --- */

struct builder {
	_Alignas(struct nlmsghdr) char data[8192];
	size_t bytes;
};

static struct nlmsghdr *begin(struct builder *builder, unsigned type, uint32_t seq, size_t body)
{
	struct nlmsghdr *header = (void *)(builder->data + builder->bytes);

	memset(header, 0, NLMSG_SPACE(body));
	header->nlmsg_type = (uint16_t)type;
	header->nlmsg_seq = seq;
	header->nlmsg_flags = NLM_F_MULTI;
	header->nlmsg_len = (uint32_t)NLMSG_LENGTH(body);
	builder->bytes += NLMSG_SPACE(body);
	return header;
}

static void attribute(struct builder *builder, struct nlmsghdr *header, unsigned type, const void *data, size_t bytes)
{
	struct rtattr *attr = (void *)(builder->data + builder->bytes);

	attr->rta_type = (uint16_t)type;
	attr->rta_len = (uint16_t)RTA_LENGTH(bytes);
	memcpy(RTA_DATA(attr), data, bytes);
	builder->bytes += RTA_SPACE(bytes);
	header->nlmsg_len = (uint32_t)(builder->data + builder->bytes - (char *)header);
}

static void put_link(struct builder *builder, const struct sim_host *host, int nic, uint32_t seq)
{
	struct nlmsghdr *header = begin(builder, RTM_NEWLINK, seq, sizeof(struct ifinfomsg));
	struct ifinfomsg *info = NLMSG_DATA(header);
	bool carrier = nic < 0 || !host->nic[nic].no_carrier;
	char name[16] = "lo";

	if (nic >= 0)
		snprintf(name, sizeof(name), "eth%d", nic);
	info->ifi_type = nic < 0 ? ARPHRD_LOOPBACK : ARPHRD_ETHER;
	info->ifi_index = nic < 0 ? 1 : NETLINK_FIRST_INDEX + nic;
	info->ifi_flags = IFF_UP | (carrier ? IFF_RUNNING : 0u) | (nic < 0 ? IFF_LOOPBACK : 0u);
	attribute(builder, header, IFLA_IFNAME, name, strlen(name) + 1);
}

static void put_address(struct builder *builder, const struct sim_host *host, int nic, uint32_t seq)
{
	struct nlmsghdr *header = begin(builder, RTM_NEWADDR, seq, sizeof(struct ifaddrmsg));
	struct ifaddrmsg *info = NLMSG_DATA(header);
	uint32_t address = htonl(nic < 0 ? INADDR_LOOPBACK : net_address(host->index, (unsigned)nic));

	info->ifa_family = AF_INET;
	info->ifa_prefixlen = nic < 0 ? 8 : 16;
	info->ifa_index = (unsigned)(nic < 0 ? 1 : NETLINK_FIRST_INDEX + nic);
	attribute(builder, header, IFA_LOCAL, &address, sizeof(address));
	attribute(builder, header, IFA_ADDRESS, &address, sizeof(address));
}

static void post(struct netlink_file *netlink, const struct builder *builder)
{
	struct message *message = malloc(sizeof(*message) + builder->bytes);

	if (!message)
		abort();
	message->bytes = builder->bytes;
	memcpy(message->data, builder->data, builder->bytes);
	TAILQ_INSERT_TAIL(&netlink->queue, message, link);
	file_notify(&netlink->file, EPOLLIN);
}

ssize_t netlink_ask(struct sim_file *file, const void *request, size_t bytes)
{
	struct netlink_file *netlink = (struct netlink_file *)file;
	struct builder builder = { .bytes = 0 };
	struct nlmsghdr header;

	if (bytes < sizeof(header))
		return -EINVAL;
	memcpy(&header, request, sizeof(header));
	for (int nic = -1; nic < (int)netlink->host->nics; nic++)
		if (header.nlmsg_type == RTM_GETLINK)
			put_link(&builder, netlink->host, nic, header.nlmsg_seq);
		else
			put_address(&builder, netlink->host, nic, header.nlmsg_seq);
	begin(&builder, NLMSG_DONE, header.nlmsg_seq, sizeof(int));
	post(netlink, &builder);
	return (ssize_t)bytes;
}

void netlink_carrier(struct sim_host *host, unsigned nic)
{
	struct netlink_file *netlink;
	struct builder builder = { .bytes = 0 };

	put_link(&builder, host, (int)nic, 0);
	TAILQ_FOREACH(netlink, &hearers, link)
		if (netlink->host == host)
			post(netlink, &builder);
}
