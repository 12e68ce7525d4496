/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the table of interfaces over rtnetlink; see netif.h. */
#include "device/netif.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "base/socket.h"
#include "device/rtattr.h"
#include "device/sysfs.h"

#define DUMP_BYTES   (64 * 1024) /* the kernel sends at most 32 KiB in a datagram */
#define DUMP_TRIES   5           /* a dump is repeated if the table changes meanwhile; the last one counts */
#define PAUSE_MS     10          /* between them */
#define DUMP_TIMEOUT 5           /* seconds; the kernel answers at once */

struct netif_link *netif_link_at(const struct netif_table *table, unsigned index)
{
	for (size_t i = 0; index && i < table->link_count; i++)
		if (table->links[i].index == index)
			return &table->links[i];
	return NULL;
}

/* Appends a zeroed entry to an array. NULL = no memory. */
static void *append(void **array, size_t *count, size_t entry_bytes)
{
	char *more = reallocarray(*array, *count + 1, entry_bytes);

	if (!more)
		return NULL;
	*array = more;
	return memset(more + (*count)++ * entry_bytes, 0, entry_bytes);
}

static int take_link(struct netif_table *table, const struct nlmsghdr *header)
{
	const struct ifinfomsg *info = (const void *)((const char *)header + NLMSG_HDRLEN);
	const struct rtattr *attrs[IFLA_LINK_NETNSID + 1];
	const struct rtattr *info_attrs[IFLA_INFO_KIND + 1] = { NULL };
	void *links = table->links;
	struct netif_link *link;

	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return -EBADMSG;
	rtattr_parse(attrs, IFLA_LINK_NETNSID, (const void *)(info + 1),
			 header->nlmsg_len - NLMSG_LENGTH(sizeof(*info)));
	if (netif_link_at(table, (unsigned)info->ifi_index)) /* the table has changed meanwhile */
		return 0;
	link = append(&links, &table->link_count, sizeof(*link));
	if (!link)
		return -ENOMEM;
	table->links = links;
	link->index = (unsigned)info->ifi_index;
	link->flags = info->ifi_flags;
	link->type = info->ifi_type;
	link->master = rtattr_u32(attrs[IFLA_MASTER]);
	if (!attrs[IFLA_LINK_NETNSID]) /* else it is an ifindex in another namespace */
		link->lower = rtattr_u32(attrs[IFLA_LINK]);
	if (link->lower == link->index)
		link->lower = 0; /* tunnels without a device below are reported so */
	rtattr_text(attrs[IFLA_IFNAME], link->name, sizeof(link->name));
	if (attrs[IFLA_LINKINFO])
		rtattr_parse(info_attrs, IFLA_INFO_KIND, rtattr_data(attrs[IFLA_LINKINFO]),
				 rtattr_bytes(attrs[IFLA_LINKINFO]));
	rtattr_text(info_attrs[IFLA_INFO_KIND], link->kind, sizeof(link->kind));
	return 0;
}

static void set_addr(struct netif_addr *entry, unsigned char family, const struct rtattr *attr)
{
	struct sockaddr_in *v4 = (void *)&entry->addr;
	struct sockaddr_in6 *v6 = (void *)&entry->addr;

	entry->addr.ss_family = family;
	if (family == AF_INET) {
		memcpy(&v4->sin_addr, rtattr_data(attr), sizeof(v4->sin_addr));
		return;
	}
	memcpy(&v6->sin6_addr, rtattr_data(attr), sizeof(v6->sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		v6->sin6_scope_id = entry->ifindex;
}

static int take_addr(struct netif_table *table, const struct nlmsghdr *header)
{
	const struct ifaddrmsg *info = (const void *)((const char *)header + NLMSG_HDRLEN);
	const struct rtattr *attrs[IFA_FLAGS + 1], *address;
	void *addrs = table->addrs;
	struct netif_addr *entry;
	uint32_t flags;
	size_t bytes;

	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*info)))
		return -EBADMSG;
	rtattr_parse(attrs, IFA_FLAGS, (const void *)(info + 1),
			 header->nlmsg_len - NLMSG_LENGTH(sizeof(*info)));
	/* On a point-to-point link IFA_ADDRESS is the other end. */
	address = attrs[IFA_LOCAL] ? attrs[IFA_LOCAL] : attrs[IFA_ADDRESS];
	bytes = info->ifa_family == AF_INET    ? sizeof(struct in_addr)
		: info->ifa_family == AF_INET6 ? sizeof(struct in6_addr)
					       : 0;
	if (!bytes || !address || rtattr_bytes(address) < bytes)
		return 0;
	flags = attrs[IFA_FLAGS] ? rtattr_u32(attrs[IFA_FLAGS]) : info->ifa_flags;
	/* Duplicate address detection has failed or is in progress: no socket can be bound to it. */
	if (flags & IFA_F_DADFAILED || (flags & IFA_F_TENTATIVE && !(flags & IFA_F_OPTIMISTIC)))
		return 0;
	entry = append(&addrs, &table->addr_count, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	table->addrs = addrs;
	entry->ifindex = info->ifa_index;
	entry->prefix = info->ifa_prefixlen;
	/* IFA_F_TEMPORARY equals IFA_F_SECONDARY, which IPv4 uses. */
	entry->fading = flags & IFA_F_DEPRECATED ||
			(info->ifa_family == AF_INET6 && flags & IFA_F_TEMPORARY);
	set_addr(entry, info->ifa_family, address);
	return 0;
}

static int send_request(int fd, unsigned short type, uint32_t seq)
{
	struct {
		struct nlmsghdr header;
		struct rtgenmsg body;
	} request = {
		.header = {
			.nlmsg_len = NLMSG_LENGTH(sizeof(request.body)),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = seq,
		},
		.body.rtgen_family = AF_UNSPEC,
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	if (sendto(fd, &request, request.header.nlmsg_len, 0, (void *)&kernel, sizeof(kernel)) < 0)
		return -errno;
	return 0;
}

static int take_error(const struct nlmsghdr *header)
{
	const struct nlmsgerr *error = (const void *)((const char *)header + NLMSG_HDRLEN);

	if (header->nlmsg_len < NLMSG_LENGTH(sizeof(*error)) || error->error >= 0)
		return -EBADMSG;
	return error->error;
}

/* Takes the messages of one datagram. 1: the dump is complete; 0: more follow; or -errno. */
static int take_messages(struct netif_table *table, const char *data, size_t bytes, uint32_t seq)
{
	int ret = 0;

	while (!ret && bytes >= sizeof(struct nlmsghdr)) {
		const struct nlmsghdr *header = (const void *)data;
		size_t step = NLMSG_ALIGN((size_t)header->nlmsg_len);

		if (header->nlmsg_len < sizeof(*header) || header->nlmsg_len > bytes)
			return -EBADMSG;
		data += anynet_min(step, bytes);
		bytes -= anynet_min(step, bytes);
		if (header->nlmsg_seq != seq)
			continue;
		table->changed |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
		if (header->nlmsg_type == RTM_NEWLINK)
			ret = take_link(table, header);
		else if (header->nlmsg_type == RTM_NEWADDR)
			ret = take_addr(table, header);
		else if (header->nlmsg_type == NLMSG_DONE)
			ret = 1;
		else if (header->nlmsg_type == NLMSG_ERROR)
			ret = take_error(header);
	}
	return ret;
}

static int dump(int fd, unsigned short type, uint32_t seq, char *buf, struct netif_table *table)
{
	int ret = send_request(fd, type, seq);

	while (!ret) {
		ssize_t bytes = recv(fd, buf, DUMP_BYTES, MSG_TRUNC);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (bytes > DUMP_BYTES)
			return -EMSGSIZE;
		ret = take_messages(table, buf, (size_t)bytes, seq);
	}
	return ret < 0 ? ret : 0;
}

/* Reads links and addresses. 0 or -errno. */
static int read_once(char *buf, struct netif_table *table)
{
	struct timeval timeout = { .tv_sec = DUMP_TIMEOUT };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	int ret;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	ret = dump(fd, RTM_GETLINK, 1, buf, table);
	if (!ret)
		ret = dump(fd, RTM_GETADDR, 2, buf, table);
	close(fd);
	return ret;
}

/* Can a socket be bound to it? Not to one that belongs to a VRF: that needs a socket of the VRF's. */
static bool can_be_bound(const struct netif_addr *addr)
{
	int fd = socket(addr->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool refused =
		fd >= 0 &&
		bind(fd, (const void *)&addr->addr, (socklen_t)socket_addr_bytes(&addr->addr)) &&
		errno == EADDRNOTAVAIL;

	if (fd >= 0)
		close(fd);
	return !refused;
}

/* Drops addresses that no socket can be bound to, though their interface is up. */
static void drop_unbound(struct netif_table *table)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->addr_count; i++) {
		struct netif_link *link = netif_link_at(table, table->addrs[i].ifindex);

		if (link && link->flags & IFF_UP && !can_be_bound(&table->addrs[i]))
			link->has_unbound = true;
		else
			table->addrs[kept++] = table->addrs[i];
	}
	table->addr_count = kept;
}

static int by_name(const void *a, const void *b)
{
	const struct netif_link *left = a, *right = b;

	return strverscmp(left->name, right->name);
}

/* What the kernel's table does not say. */
static void ask_sysfs(struct netif_link *link)
{
	link->speed_mbps = sysfs_net_speed(ANYNET_SYSFS, link->name);
	if (!*link->kind && sysfs_is_wifi(ANYNET_SYSFS, link->name))
		memcpy(link->kind, "wlan", sizeof("wlan"));
}

int netif_read(struct netif_table *table)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000 };
	char *buf = malloc(DUMP_BYTES);
	int ret = 0;

	*table = (struct netif_table){ 0 };
	if (!buf)
		return -ENOMEM;
	for (int i = 0; i < DUMP_TRIES && !ret && (!i || table->changed); i++) {
		if (i)
			nanosleep(&pause, NULL);
		netif_free(table);
		ret = read_once(buf, table);
	}
	free(buf);
	drop_unbound(table);
	if (table->link_count)
		qsort(table->links, table->link_count, sizeof(*table->links), by_name);
	for (size_t i = 0; i < table->link_count; i++)
		ask_sysfs(&table->links[i]);
	return ret;
}

void netif_free(struct netif_table *table)
{
	free(table->links);
	free(table->addrs);
	*table = (struct netif_table){ 0 };
}
