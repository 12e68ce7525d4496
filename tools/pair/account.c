/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads TCP_INFO; see account.h. <linux/tcp.h> has the newer fields of tcp_info; it cannot be
 * included together with <netinet/tcp.h>.
 */
#include "account.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ESTABLISHED 1     /* TCP_ESTABLISHED of the kernel */
#define CARRIES     65536 /* bytes; connections with less carry control data only */

static bool ask(int fd, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	*info = (struct tcp_info){ 0 };
	return !getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len);
}

static void add(struct account *sum, const struct account *a)
{
	sum->connections += a->connections;
	sum->segments += a->segments;
	sum->retransmits += a->retransmits;
	sum->busy_us += a->busy_us;
	sum->rwnd_limited_us += a->rwnd_limited_us;
	sum->sndbuf_limited_us += a->sndbuf_limited_us;
	sum->window_bytes += a->window_bytes;
	if (sum->connections > 1)
		return;
	sum->rtt_us = a->rtt_us;
	sum->mss = a->mss;
	sum->pmtu = a->pmtu;
}

static struct account read_info(const struct tcp_info *info)
{
	return (struct account){
		.connections = 1,
		.segments = info->tcpi_segs_out,
		.retransmits = info->tcpi_total_retrans,
		.busy_us = info->tcpi_busy_time,
		.rwnd_limited_us = info->tcpi_rwnd_limited,
		.sndbuf_limited_us = info->tcpi_sndbuf_limited,
		.window_bytes = info->tcpi_snd_wnd,
		.rtt_us = info->tcpi_rtt,
		.mss = info->tcpi_snd_mss,
		.pmtu = info->tcpi_pmtu,
	};
}

void account_add(struct account *account, int fd)
{
	struct account one;
	struct tcp_info info;

	if (!ask(fd, &info))
		return;
	one = read_info(&info);
	add(account, &one);
}

static void tell(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

void account_tell(json_t *object, const struct account *account)
{
	if (account->connections == 1) {
		tell(object, "mss", account->mss);
		tell(object, "pmtu", account->pmtu);
	}
	tell(object, "rtt_us", account->rtt_us);
	tell(object, "window_bytes", account->window_bytes);
	tell(object, "segments", account->segments);
	tell(object, "retransmits", account->retransmits);
	tell(object, "busy_us", account->busy_us);
	tell(object, "rwnd_limited_us", account->rwnd_limited_us);
	tell(object, "sndbuf_limited_us", account->sndbuf_limited_us);
}

/* --- all of a process --- */

static bool look_at(int fd, struct account_socket *socket)
{
	socklen_t len = sizeof(socket->cookie);
	struct tcp_info info;
	int protocol = 0;
	socklen_t protocol_len = sizeof(protocol);

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &protocol_len) ||
	    protocol != IPPROTO_TCP || !ask(fd, &info) || info.tcpi_state != ESTABLISHED ||
	    getsockopt(fd, SOL_SOCKET, SO_COOKIE, &socket->cookie, &len))
		return false;
	socket->acked = info.tcpi_bytes_acked;
	socket->account = read_info(&info);
	return true;
}

void account_look(struct account_sockets *sockets)
{
	DIR *open = opendir("/proc/self/fd");
	struct dirent *entry;

	sockets->count = 0;
	while (open && sockets->count < ACCOUNT_SOCKETS && (entry = readdir(open)))
		sockets->count += *entry->d_name != '.' &&
				  look_at(atoi(entry->d_name), &sockets->of[sockets->count]);
	if (open)
		closedir(open);
}

static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static void take_off(struct account_socket *now, const struct account_socket *before)
{
	struct account *a = &now->account;

	now->acked = more(now->acked, before->acked);
	a->segments = more(a->segments, before->account.segments);
	a->retransmits = more(a->retransmits, before->account.retransmits);
	a->busy_us = more(a->busy_us, before->account.busy_us);
	a->rwnd_limited_us = more(a->rwnd_limited_us, before->account.rwnd_limited_us);
	a->sndbuf_limited_us = more(a->sndbuf_limited_us, before->account.sndbuf_limited_us);
}

struct account account_since(const struct account_sockets *before)
{
	static struct account_sockets now;
	struct account sum = { 0 };

	account_look(&now);
	for (size_t i = 0; i < now.count; i++) {
		for (size_t k = 0; k < before->count; k++)
			if (before->of[k].cookie == now.of[i].cookie)
				take_off(&now.of[i], &before->of[k]);
		if (now.of[i].acked >= CARRIES)
			add(&sum, &now.of[i].account);
	}
	return sum;
}
