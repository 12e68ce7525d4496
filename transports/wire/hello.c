/* SPDX-License-Identifier: Apache-2.0 */
/* Handles and hellos, whose layout is in <nccl_net/wire.h>, and the plan of streams; see hello.h. */
#include "wire/hello.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/log.h>
#include <nccl_net/subnet.h>

#include "base/net.h"

/* Two NICs count as being on one network if this many leading bits of their addresses agree. The networks of a site are
 * rarely larger, and a pair that cannot connect costs only a dial and a log line. */
#define PAIR_BITS_V4 16
#define PAIR_BITS_V6 48

#define PLUGIN_VERSION \
	((uint32_t)ANYNET_VERSION_MAJOR << 16 | ANYNET_VERSION_MINOR << 8 | ANYNET_VERSION_PATCH)

uint16_t wire_oldest(void)
{
	return (uint16_t)(ANYNET_WIRE_OLDEST + anynet_net.cfg->wire_oldest_later);
}

uint16_t wire_newest(void)
{
	return (uint16_t)(ANYNET_WIRE_VERSION + anynet_net.cfg->wire_newest_later);
}

static bool is_spoken(uint16_t version)
{
	return version >= wire_oldest() && version <= wire_newest();
}

void handle_fill(struct anynet_wire_handle *handle, uint32_t endpoint,
		 const uint8_t token[ANYNET_TOKEN_BYTES], const struct anynet_wire_addr *addrs,
		 int addr_count)
{
	*handle = (struct anynet_wire_handle){
		.magic = ANYNET_HANDLE_MAGIC,
		.version = wire_newest(),
		.oldest = (uint8_t)wire_oldest(),
		.transports = 1u << ANYNET_TRANSPORT_TCP,
		.endpoint = endpoint,
		.pid = anynet_net.pid,
	};
	memcpy(handle->token, token, ANYNET_TOKEN_BYTES);
	for (int i = 0, n = 0; i < addr_count && n < ANYNET_HANDLE_ADDRS; i++)
		if (addrs[i].port)
			handle->addrs[n++] = addrs[i];
}

uint16_t handle_version(const struct anynet_wire_handle *handle)
{
	uint16_t version = handle->version < wire_newest() ? handle->version : wire_newest();

	return version > wire_oldest() ? version : wire_oldest();
}

int handle_check(const struct anynet_wire_handle *handle, char *why, size_t bytes)
{
	if (handle->magic != ANYNET_HANDLE_MAGIC) {
		snprintf(
			why, bytes,
			"the handle is not anynet's: the peer does not run anynet (is libnccl-net.so on "
			"every host?)");
	} else if (!(handle->transports & 1u << ANYNET_TRANSPORT_TCP) ||
		   (handle->addrs[0].family != 4 && handle->addrs[0].family != 6)) {
		snprintf(why, bytes, "the peer offers no TCP address");
	} else {
		return 0;
	}
	return -EINVAL;
}

void hello_fill(struct anynet_wire_hello *hello, const struct anynet_device *dev,
		const struct anynet_wire_addr *addrs, int addr_count)
{
	*hello = (struct anynet_wire_hello){
		.magic = ANYNET_HELLO_MAGIC,
		.version = wire_newest(),
		.bytes = sizeof(*hello),
		.pid = anynet_net.pid,
		.nccl_version = (uint32_t)anynet_net.nccl_version,
		.plugin_version = PLUGIN_VERSION,
		.transports = 1u << ANYNET_TRANSPORT_TCP,
		.chunk_bytes = (uint32_t)anynet_net.cfg->chunk_bytes,
		.replay_bytes = (uint32_t)anynet_net.cfg->replay_bytes,
		.max_recvs = (uint32_t)dev->max_recvs,
		.speed_mbps = (uint32_t)dev->speed_mbps,
	};
	if (dev->transport == ANYNET_TRANSPORT_IB) {
		hello->transports |= 1u << ANYNET_TRANSPORT_IB;
		hello->replay_bytes = IB_REPLAY_BYTES;
	}
	if (anynet_net.cfg->checksum)
		hello->features |= ANYNET_FEATURE_CHECKSUM;
	for (int i = 0; i < addr_count && i < ANYNET_HELLO_ADDRS; i++)
		hello->addrs[i] = addrs[i];
	snprintf(hello->host, sizeof(hello->host), "%.63s", anynet_net.host);
	snprintf(hello->device, sizeof(hello->device), "%.63s", dev->name);
}

void hello_answer(struct anynet_wire_hello *answer, const struct anynet_wire_hello *hello)
{
	answer->version = is_spoken(hello->version) ? hello->version : wire_newest();
	answer->type = ANYNET_WELCOME;
	answer->kind = hello->kind;
	answer->stream = hello->stream;
	answer->epoch = hello->epoch;
	answer->comm_id = hello->comm_id;
	answer->endpoint = hello->endpoint;
}

/* Not by isprint: in other locales there are more printable characters, and the proofs of both ends would differ. */
static void make_printable(char *text, size_t bytes)
{
	text[bytes - 1] = '\0';
	for (size_t i = 0; text[i]; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
}

void hello_make_printable(struct anynet_wire_hello *hello)
{
	make_printable(hello->host, sizeof(hello->host));
	make_printable(hello->device, sizeof(hello->device));
	make_printable(hello->reason, sizeof(hello->reason));
}

int hello_check(struct anynet_wire_hello *hello, enum anynet_hello_type type)
{
	if (hello->magic != ANYNET_HELLO_MAGIC || hello->type != type)
		return -EPROTO;
	if (!is_spoken(hello->version))
		return -EPROTONOSUPPORT;
	hello_make_printable(hello);
	if (hello->bytes != sizeof(*hello) || hello->status >= ANYNET_STATUS_COUNT ||
	    hello->stream >= ANYNET_STREAMS_MAX || hello->streams > ANYNET_STREAMS_MAX)
		return -EPROTO;
	if (type == ANYNET_HELLO &&
	    (hello->kind < ANYNET_KIND_COMM || hello->kind > ANYNET_KIND_QP || !hello->streams ||
	     hello->replay_bytes < 1024))
		return -EPROTO;
	if (type == ANYNET_WELCOME && hello->status == ANYNET_STATUS_OK &&
	    hello->kind == ANYNET_KIND_COMM && (!hello->streams || !hello_addr_count(hello)))
		return -EPROTO;
	for (int i = 0; type == ANYNET_WELCOME && i < hello->streams; i++)
		if (hello->plan[i].from >= ANYNET_HELLO_ADDRS ||
		    hello->plan[i].to >= hello_addr_count(hello))
			return -EPROTO;
	return 0;
}

struct hello_question hello_question(const struct anynet_wire_hello *hello)
{
	return (struct hello_question){
		.comm_id = hello->comm_id,
		.endpoint = hello->endpoint,
		.epoch = hello->epoch,
		.version = hello->version,
		.stream = hello->stream,
		.kind = hello->kind,
	};
}

int hello_check_answer(struct anynet_wire_hello *answer, enum anynet_hello_type type,
		       const struct hello_question *question)
{
	int ret = hello_check(answer, type);

	if (ret)
		return ret;
	return answer->version == question->version && answer->kind == question->kind &&
			       answer->comm_id == question->comm_id &&
			       answer->stream == question->stream &&
			       answer->epoch == question->epoch &&
			       answer->endpoint == question->endpoint
		       ? 0
		       : -EPROTO;
}

bool hello_is_foreign(const struct anynet_wire_hello *hello, size_t got)
{
	return got >= offsetof(struct anynet_wire_hello, stream) &&
	       hello->magic == ANYNET_HELLO_MAGIC && !is_spoken(hello->version);
}

int hello_addr_count(const struct anynet_wire_hello *hello)
{
	int n = 0;

	while (n < ANYNET_HELLO_ADDRS &&
	       (hello->addrs[n].family == 4 || hello->addrs[n].family == 6))
		n++;
	return n;
}

int hello_spread(const struct anynet_wire_hello *hello)
{
	int count = hello_addr_count(hello), spread = hello->plan[0].from;

	return spread && spread < count ? spread : count;
}

void hello_peer(const struct anynet_wire_hello *hello, struct anynet_peer *peer)
{
	snprintf(peer->host, sizeof(peer->host), "%s", hello->host);
	snprintf(peer->device, sizeof(peer->device), "%s", hello->device);
	peer->pid = hello->pid;
	peer->nccl_version = hello->nccl_version;
	peer->max_recvs = hello->max_recvs;
}

bool hello_may_use_qps(const struct anynet_wire_hello *peer)
{
	return peer->transports & 1u << ANYNET_TRANSPORT_IB &&
	       !(peer->features & ANYNET_FEATURE_CHECKSUM) && !anynet_net.cfg->checksum;
}

void hello_say_no_qp(const struct anynet_wire_hello *peer, const char *why)
{
	anynet_info("peer %s pid %u: data uses TCP, not queue pairs: %s",
		    peer->host, peer->pid, why);
}

void hello_say_no_cm(const struct anynet_wire_hello *peer, const char *why)
{
	anynet_info("peer %s pid %u: the queue pair is connected without the RDMA CM: %s",
		    peer->host, peer->pid, why);
}

/* NCCL_VERSION_CODE: 1000 * major + 100 * minor + patch before 2.9, 10000 * … since. */
static const char *nccl_text(uint32_t code, char *buf, size_t bytes)
{
	if (code < 10000)
		snprintf(buf, bytes, "%u.%u.%u", code / 1000, code / 100 % 10, code % 100);
	else
		snprintf(buf, bytes, "%u.%u.%u", code / 10000, code / 100 % 100, code % 100);
	return buf;
}

static void warn_of_nccl(const struct anynet_peer *peer)
{
	static _Atomic bool warned;
	char own[32], other[32];

	if (!peer->nccl_version || !anynet_net.nccl_version ||
	    peer->nccl_version == (uint32_t)anynet_net.nccl_version ||
	    atomic_exchange(&warned, true))
		return;
	anynet_warn(
		"host %s pid %u runs NCCL %s, this process (host %s pid %u) NCCL %s from %s: install "
		"one version on every host",
		peer->host, peer->pid, nccl_text(peer->nccl_version, other, sizeof(other)),
		anynet_net.host, anynet_net.pid,
		nccl_text((uint32_t)anynet_net.nccl_version, own, sizeof(own)),
		anynet_net.nccl_path);
}

static void warn_of_recvs(const struct anynet_peer *peer, uint32_t max_recvs)
{
	static _Atomic bool warned;

	if ((peer->max_recvs > 1) == (max_recvs > 1) || atomic_exchange(&warned, true))
		return;
	anynet_warn(
		"host %s pid %u has ANYNET_MAX_RECVS=%u, this process (host %s pid %u) %u: set 1 on "
		"every host or on none, or send and receive operations hang",
		peer->host, peer->pid, peer->max_recvs, anynet_net.host, anynet_net.pid, max_recvs);
}

void hello_warn(const struct anynet_peer *peer, const struct anynet_device *dev)
{
	warn_of_nccl(peer);
	warn_of_recvs(peer, (uint32_t)dev->max_recvs);
}

bool constant_time_equal(const void *a, const void *b, size_t bytes)
{
	volatile uint8_t differ = 0;

	for (size_t i = 0; i < bytes; i++)
		differ |= ((const uint8_t *)a)[i] ^ ((const uint8_t *)b)[i];
	return !differ;
}

static int common_bits(const struct anynet_wire_addr *a, const struct anynet_wire_addr *b)
{
	return a->family == b->family ? subnet_common_bits(a->ip, b->ip, a->family == 4 ? 32 : 128) : 0;
}

/* The unused acceptor NIC that shares the longest address prefix with `from`; -1 = none is on its network. */
static int nearest(const struct anynet_wire_addr *from, struct nic_addrs to, uint32_t used)
{
	int best = -1, best_bits = from->family == 4 ? PAIR_BITS_V4 - 1 : PAIR_BITS_V6 - 1;

	for (int i = 0; i < to.count; i++) {
		bool is_out = used & 1u << i || !to.addrs[i].port;
		int bits = is_out ? 0 : common_bits(from, &to.addrs[i]);

		if (bits > best_bits) {
			best = i;
			best_bits = bits;
		}
	}
	return best;
}

int stream_plan(struct nic_addrs from, struct nic_addrs to, int per_nic,
		struct anynet_wire_pair *plan, int max)
{
	struct anynet_wire_pair pairs[ANYNET_HELLO_ADDRS] = { { 0, 0 } };
	uint32_t used = 1;
	int pair_count = 1, count = 0;

	for (int i = 1; i < from.count && i < ANYNET_HELLO_ADDRS; i++) {
		int peer = nearest(&from.addrs[i], to, used);

		if (peer < 0)
			continue;
		used |= 1u << peer;
		pairs[pair_count++] = (struct anynet_wire_pair){ (uint8_t)i, (uint8_t)peer };
	}
	for (int k = 0; k < per_nic; k++)
		for (int i = 0; i < pair_count && count < max; i++)
			plan[count++] = pairs[i];
	return count;
}

int stream_plan_ports(int ports, int streams, struct anynet_wire_pair *plan, int max)
{
	int count = 0;

	for (; count < streams && count < max; count++)
		plan[count] = (struct anynet_wire_pair){ .to = (uint8_t)(count % ports) };
	return count;
}

void stream_plan_own_ports(int ports, struct anynet_wire_pair *plan, int streams)
{
	for (int i = 0; i < streams; i++)
		plan[i].from = (uint8_t)(i % ports);
}

bool stream_plan_spreads(const struct anynet_wire_pair *plan, int streams)
{
	for (int i = 1; i < streams; i++)
		if (plan[i].from != plan[0].from || plan[i].to != plan[0].to)
			return true;
	return false;
}
