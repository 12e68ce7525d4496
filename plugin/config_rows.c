/* SPDX-License-Identifier: Apache-2.0 */
/* The settings, one row each. */
#include <nccl_net/config.h>

#include <assert.h>
#include <limits.h>
#include <stdint.h>

#include "config_parse.h"

#include <nccl_net/comm.h>
#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#define TEXT_MAX(member) (sizeof(((struct anynet_config *)NULL)->member) - 1)

const struct anynet_config_row anynet_config_rows[] = {
	{
		.name = "ANYNET_TRANSPORT",
		.initial = "auto",
		.accepts = "auto, ib or tcp",
		.doc = "Which networks to offer to NCCL. `auto`: InfiniBand and RoCE where they work, "
		       "else TCP, and a line says why. `ib`: the same, with a warning instead, and two "
		       "hosts with such ports that cannot connect through them are an error. `tcp` "
		       "does not look for them.",
		.parse = anynet_parse_transport,
		.offset = offsetof(struct anynet_config, transport),
	},
	{
		.name = "ANYNET_IB_DISABLE",
		.alias = "NCCL_IB_DISABLE",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: do not look for InfiniBand or RoCE.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_disable),
	},
	{
		.name = "ANYNET_IB_HCA",
		.alias = "NCCL_IB_HCA",
		.initial = "",
		.accepts = "[^][=]name[:port[:rail[:plane]]],... of at most 4095 characters",
		.doc = "Verbs devices to use, by prefix. A leading `^` excludes the list instead; a "
		       "`=` after it compares whole names. NCCL 2.30 is told rail and plane.",
		.refused = "^", /* none */
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, ib_hca),
		.max = TEXT_MAX(ib_hca),
	},
	{
		.name = "ANYNET_IBVERBS_LIB",
		.alias = "NCCL_IBVERBS_LIB",
		.initial = "",
		.accepts = "a file name of at most 255 characters",
		.doc = "libibverbs to load; tried before libibverbs.so.1 and libibverbs.so.",
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, ibverbs_lib),
		.max = TEXT_MAX(ibverbs_lib),
	},
	{
		.name = "ANYNET_IB_GID_INDEX",
		.alias = "NCCL_IB_GID_INDEX",
		.initial = "auto",
		.accepts = "0 to 255, or auto",
		.doc = "RoCE: the GID to use, by its place in each port's table. `auto`: chosen for each "
		       "port and peer.",
		.parse = anynet_parse_auto_index,
		.offset = offsetof(struct anynet_config, ib_gid_index),
		.min = 0,
		.max = UINT8_MAX,
	},
	{
		.name = "ANYNET_IB_ROCE_VERSION_NUM",
		.alias = "NCCL_IB_ROCE_VERSION_NUM",
		.initial = "2",
		.accepts = "1 to 2",
		.doc = "RoCE version that is preferred when a GID is chosen.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_roce_version),
		.min = 1,
		.max = 2,
	},
	{
		.name = "ANYNET_IB_ADDR_FAMILY",
		.alias = "NCCL_IB_ADDR_FAMILY",
		.initial = "AF_INET",
		.accepts = "any, AF_INET or AF_INET6",
		.doc = "RoCE: address family that is preferred when a GID is chosen; the other one is "
		       "taken where it alone leads to the peer.",
		.parse = anynet_parse_family,
		.offset = offsetof(struct anynet_config, ib_addr_family),
	},
	{
		.name = "ANYNET_IB_ADDR_RANGE",
		.alias = "NCCL_IB_ADDR_RANGE",
		.initial = "",
		.accepts = "address/prefix, or address",
		.doc = "RoCE: only GIDs in this network are chosen.",
		.parse = anynet_parse_network,
		.offset = offsetof(struct anynet_config, ib_addr_range),
		.max = TEXT_MAX(ib_addr_range),
	},
	{
		.name = "ANYNET_IB_ROUTABLE_FLID_GID_INDEX",
		.alias = "NCCL_IB_ROUTABLE_FLID_GID_INDEX",
		.initial = "1",
		.accepts = "0 to 255",
		.doc = "InfiniBand: the GID to use if routers forward to it (it has an FLID); else GID "
		       "0 is used.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_flid_gid_index),
		.min = 0,
		.max = UINT8_MAX,
	},
	{
		.name = "ANYNET_IB_DATA_DIRECT",
		.alias = "NCCL_IB_DATA_DIRECT",
		.initial = "1",
		.accepts = "0 to 2",
		.doc = "An adapter that reaches GPU memory by a Data Direct engine (ConnectX-8) is "
		       "offered as `NAME_dma`, by that engine's place on PCI. 1: instead of the plain "
		       "one. 2: besides. 0: not.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_data_direct),
		.min = 0,
		.max = 2,
	},
	{
		.name = "ANYNET_IB_MERGE_VFS",
		.alias = "NCCL_IB_MERGE_VFS",
		.initial = "1",
		.accepts = "0 or 1",
		.doc = "1: NCCL is told that the virtual functions of a card are one PCI device.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_merge_vfs),
	},
	{
		.name = "ANYNET_IB_MERGE_NICS",
		.alias = "NCCL_IB_MERGE_NICS",
		.initial = "1",
		.accepts = "0 to 2",
		.doc = "1: NCCL may fuse ports to one device, whose connections use all of them (NCCL "
		       "2.24 and newer, `NCCL_NET_MERGE_LEVEL`). 0: it may not. 2: virtual ones as "
		       "well, for tests: NCCL does not find such a device in its topology.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_merge_nics),
		.min = 0,
		.max = 2,
	},
	{
		.name = "ANYNET_IB_DEVICE_PCI_ORDER",
		.alias = "NCCL_IB_DEVICE_PCI_ORDER",
		.initial = "1",
		.accepts = "0 or 1",
		.doc = "1: verbs devices are numbered by PCI address. 0: in the order of the kernel's "
		       "list.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_pci_order),
	},
	{
		.name = "ANYNET_IB_TIMEOUT",
		.alias = "NCCL_IB_TIMEOUT",
		.initial = "16",
		.accepts = "1 to 31",
		.doc = "How long a NIC waits for an acknowledgement before it sends again: 4.096 us * "
		       "2^n. 16 is 0.27 s. NCCL has 20, 4.3 s, since giving up is the end of its "
		       "connection; here the transfer goes on over another path.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_timeout),
		.min = 1,
		.max = 31,
	},
	{
		.name = "ANYNET_IB_RETRY_CNT",
		.alias = "NCCL_IB_RETRY_CNT",
		.initial = "7",
		.accepts = "0 to 7",
		.doc = "Times that a NIC sends again before it gives a connection up. Soft-RoCE takes 7 "
		       "for ever.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_retry_cnt),
		.min = 0,
		.max = 7,
	},
	{
		.name = "ANYNET_IB_SL",
		.alias = "NCCL_IB_SL",
		.initial = "auto",
		.accepts = "0 to 15, or auto",
		.doc = "Service level of the packets. `auto`: the traffic class of NCCL's communicator if "
		       "it has one, else 0. The connecting side's counts, the other takes it over.",
		.parse = anynet_parse_auto_index,
		.offset = offsetof(struct anynet_config, ib_sl),
		.min = 0,
		.max = 15,
	},
	{
		.name = "ANYNET_IB_TC",
		.alias = "NCCL_IB_TC",
		.initial = "auto",
		.accepts = "0 to 255, or auto",
		.doc = "Traffic class of the packets, on RoCE their DSCP and ECN byte. `auto`: as for the "
		       "service level. The connecting side's counts, the other takes it over.",
		.parse = anynet_parse_auto_index,
		.offset = offsetof(struct anynet_config, ib_tc),
		.min = 0,
		.max = UINT8_MAX,
	},
	{
		.name = "ANYNET_IB_PKEY",
		.alias = "NCCL_IB_PKEY",
		.initial = "0",
		.accepts = "0 to 65535",
		.doc = "Place of the partition key in each port's table.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_pkey),
		.min = 0,
		.max = UINT16_MAX,
	},
	{
		.name = "ANYNET_IB_ADAPTIVE_ROUTING",
		.alias = "NCCL_IB_ADAPTIVE_ROUTING",
		.initial = "auto",
		.accepts = "0 to 1, or auto",
		.doc = "1: the fabric may send packets of a queue pair over several paths, so large "
		       "messages go as a WRITE and a small SEND behind it. `auto`: on InfiniBand.",
		.parse = anynet_parse_auto_index,
		.offset = offsetof(struct anynet_config, ib_adaptive),
		.min = 0,
		.max = 1,
	},
	{
		.name = "ANYNET_IB_AR_THRESHOLD",
		.alias = "NCCL_IB_AR_THRESHOLD",
		.initial = "8k",
		.accepts = "0 to 1g bytes, suffix k, m or g",
		.doc = "With adaptive routing: what is larger goes in two requests.",
		.parse = anynet_parse_size,
		.offset = offsetof(struct anynet_config, ib_ar_threshold),
		.min = 0,
		.max = 1 << 30,
	},
	{
		.name = "ANYNET_IB_QPS_PER_CONNECTION",
		.alias = "NCCL_IB_QPS_PER_CONNECTION",
		.initial = "1",
		.accepts = "1 to 64",
		.doc = "Queue pairs of a connection, so that fabrics that choose a path for each flow use "
		       "several. The side that wants more decides.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_qps),
		.min = 1,
		.max = 64,
	},
	{
		.name = "ANYNET_IB_SPLIT_DATA_ON_QPS",
		.alias = "NCCL_IB_SPLIT_DATA_ON_QPS",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: with several queue pairs a message is cut into chunks (`ANYNET_TCP_CHUNK`) "
		       "that go through all of them; 0: each goes through one of them.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_split),
	},
	{
		.name = "ANYNET_IB_ECE_ENABLE",
		.alias = "NCCL_IB_ECE_ENABLE",
		.initial = "1",
		.accepts = "0 or 1",
		.doc = "1: adapters agree on what both can do beyond the standard (ECE).",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_ece),
	},
	{
		.name = "ANYNET_IB_LOOPBACK",
		.initial = "1",
		.accepts = "0 or 1",
		.doc = "1: a port is offered if a queue pair on it can write to itself; 0: without that, for "
		       "adapters and virtual functions whose packets to themselves are filtered. Each queue "
		       "pair proves itself to its peer all the same.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_loopback),
	},
	{
		.name = "ANYNET_IB_CM",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1 at both ends: queue pairs are connected by the RDMA connection manager "
		       "(librdmacm); where that fails, without it.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, ib_cm),
	},
	{
		.name = "ANYNET_RDMACM_LIB",
		.initial = "",
		.accepts = "a file name of at most 255 characters",
		.doc = "librdmacm to load; tried before librdmacm.so.1.",
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, rdmacm_lib),
		.max = TEXT_MAX(rdmacm_lib),
	},
	{
		.name = "ANYNET_IB_PCI_RELAXED_ORDERING",
		.alias = "NCCL_IB_PCI_RELAXED_ORDERING",
		.initial = "2",
		.accepts = "0 to 2",
		.doc = "NCCL's buffers are registered with relaxed ordering. 0: never; else where "
		       "libibverbs knows it (1.8).",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, ib_relaxed),
		.min = 0,
		.max = 2,
	},
	{
		.name = "ANYNET_IB_PEER_MEMORY",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "Do NICs reach GPU memory by a peer-memory module? `auto`: if nvidia_peermem or "
		       "one of its forerunners is loaded. dma-bufs are asked for besides.",
		.parse = anynet_parse_switch,
		.offset = offsetof(struct anynet_config, ib_peer_memory),
	},
	{
		.name = "ANYNET_GDR_FLUSH_DISABLE",
		.alias = "NCCL_GDR_FLUSH_DISABLE",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: what a NIC has written to GPU memory is not flushed by an RDMA READ.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, flush_disable),
	},
	{
		.name = "ANYNET_TCP_CUDA",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: TCP devices take GPU memory as well, and copy it through pinned host memory "
		       "themselves, where NCCL would.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, tcp_cuda),
	},
	{
		.name = "ANYNET_CUDA_LIB",
		.initial = "",
		.accepts = "a file name of at most 255 characters",
		.doc = "CUDA driver library to load in place of libcuda.so.1, when there is GPU "
		       "memory.",
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, cuda_lib),
		.max = TEXT_MAX(cuda_lib),
	},
	{
		.name = "ANYNET_CUDA_OWN_CONTEXT",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "GPU memory that goes over TCP is copied in a CUDA context of the plugin's own, so that "
		       "no call waits for one of the application's. Like every context it takes some "
		       "hundred MB of the GPU. `auto`: not beside NICs that reach the GPU, where TCP is "
		       "for emergencies.",
		.parse = anynet_parse_switch,
		.offset = offsetof(struct anynet_config, cuda_own_context),
	},
	{
		.name = "ANYNET_SOCKET_IFNAME",
		.alias = "NCCL_SOCKET_IFNAME",
		.initial = "",
		.accepts = "[^][=]name,... of 2 to 4095 characters",
		.doc = "Interfaces to use, by prefix. A leading `^` excludes the list instead; a `=` "
		       "after it compares whole names. Unset: NICs before virtual ones.",
		.refused = "=lo", /* no NIC */
		.parse = anynet_parse_ifname,
		.offset = offsetof(struct anynet_config, socket_ifname),
		.max = TEXT_MAX(socket_ifname),
	},
	{
		.name = "ANYNET_SOCKET_FAMILY",
		.alias = "NCCL_SOCKET_FAMILY",
		.initial = "any",
		.accepts = "any, AF_INET or AF_INET6",
		.doc = "Address family. `any` takes an interface's first usable address, IPv4 before "
		       "IPv6.",
		.parse = anynet_parse_family,
		.offset = offsetof(struct anynet_config, socket_family),
	},
	{
		.name = "ANYNET_SOCKET_SUBNET",
		.alias = "NCCL_COMM_ID",
		.initial = "",
		.accepts = "address, address/prefix, or address:port as in NCCL_COMM_ID",
		.doc = "Take the interfaces in this network, or in the interface's network that "
		       "holds this address. Ignored when interfaces are named. A host name in "
		       "NCCL_COMM_ID gives no hint.",
		.parse = anynet_parse_subnet,
		.offset = offsetof(struct anynet_config, socket_subnet),
		.max = TEXT_MAX(socket_subnet),
	},
	{
		.name = "ANYNET_PORT_RANGE",
		.initial = "auto",
		.accepts = "lo-hi between 1 and 65535, or auto",
		.doc = "TCP ports to listen on, one per NIC and process; for firewalls. `auto`: the "
		       "kernel's ephemeral ports.",
		.parse = anynet_parse_ports,
		.offset = offsetof(struct anynet_config, port_min),
		.min = 1,
		.max = UINT16_MAX,
	},
	{
		.name = "ANYNET_IO_THREADS",
		.alias = "NCCL_SOCKET_NTHREADS",
		.initial = "auto",
		.accepts = "0 to 16, or auto",
		.doc = "I/O threads of the process, shared by all connections, beside NCCL's own "
		       "thread.",
		.parse = anynet_parse_auto_int,
		.offset = offsetof(struct anynet_config, io_threads),
		.min = 0,
		.max = 16,
	},
	{
		.name = "ANYNET_TCP_RAILS",
		.alias = "NCCL_NSOCKS_PERTHREAD",
		.initial = "auto",
		.accepts = "1 to 64, or auto",
		.doc = "TCP connections per peer and pair of NICs. From NCCL's variables: threads "
		       "times sockets per thread.",
		.parse = anynet_parse_auto_int,
		.offset = offsetof(struct anynet_config, rails_per_nic),
		.min = 1,
		.max = ANYNET_RAILS_MAX,
	},
	{
		.name = "ANYNET_TCP_STRIPE",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "Spread every connection over all equal NICs. `auto`: not where the host has as many of them as GPUs, since NCCL spreads its channels.",
		.parse = anynet_parse_switch,
		.offset = offsetof(struct anynet_config, stripe),
	},
	{
		.name = "ANYNET_TCP_EAGER",
		.initial = "8k",
		.accepts = "0 to 1m bytes, suffix k or m",
		.doc = "Sends up to this many bytes are copied and complete at once.",
		.parse = anynet_parse_size,
		.offset = offsetof(struct anynet_config, eager_bytes),
		.min = 0,
		.max = 1 * MIB,
	},
	{
		.name = "ANYNET_TCP_REPLAY",
		.initial = "32k",
		.accepts = "4k to 64m bytes, suffix k or m",
		.doc = "Memory per sending connection for copies that the peer has not acknowledged.",
		.parse = anynet_parse_size,
		.offset = offsetof(struct anynet_config, replay_bytes),
		.min = 4 * KIB,
		.max = 64 * MIB,
	},
	{
		.name = "ANYNET_TCP_KEEP",
		.initial = "auto",
		.accepts = "0 to 64m bytes, suffix k or m, or auto",
		.doc = "Memory per sending connection for large sends that are copied and complete when the kernel has taken them. `auto`: 8m where round trip times speed exceeds 1m, else none. Not with `ANYNET_TCP_ZEROCOPY=on`.",
		.parse = anynet_parse_auto_size,
		.offset = offsetof(struct anynet_config, keep_bytes),
		.min = 0,
		.max = 64 * MIB,
	},
	{
		.name = "ANYNET_TCP_CHUNK",
		.initial = "128k",
		.accepts = "4k to 1g bytes, a multiple of 128, suffix k, m or g",
		.doc = "Largest piece of a message on one rail when there are several.",
		.parse = anynet_parse_chunk,
		.offset = offsetof(struct anynet_config, chunk_bytes),
		.min = 4 * KIB,
		.max = 1 * GIB,
	},
	{
		.name = "ANYNET_TCP_ZEROCOPY",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "Send large messages with MSG_ZEROCOPY. `auto`: where the kernel really "
		       "avoids the copy.",
		.parse = anynet_parse_switch,
		.offset = offsetof(struct anynet_config, zerocopy),
	},
	{
		.name = "ANYNET_TCP_SNDBUF",
		.alias = "NCCL_SOCKET_SNDBUF",
		.initial = "auto",
		.accepts = "1 to 1g bytes, suffix k, m or g, or auto",
		.doc = "SO_SNDBUF. `auto`: the kernel tunes it.",
		.parse = anynet_parse_auto_size,
		.offset = offsetof(struct anynet_config, sndbuf_bytes),
		.min = 1,
		.max = 1 * GIB,
	},
	{
		.name = "ANYNET_TCP_RCVBUF",
		.alias = "NCCL_SOCKET_RCVBUF",
		.initial = "auto",
		.accepts = "1 to 1g bytes, suffix k, m or g, or auto",
		.doc = "SO_RCVBUF. `auto`: the kernel tunes it.",
		.parse = anynet_parse_auto_size,
		.offset = offsetof(struct anynet_config, rcvbuf_bytes),
		.min = 1,
		.max = 1 * GIB,
	},
	{
		.name = "ANYNET_TCP_CONGESTION",
		.initial = "",
		.accepts = "a name of at most 15 letters, digits, '-' and '_'",
		.doc = "Congestion control algorithm, as in TCP_CONGESTION. Unset: the kernel's, and "
		       "Cubic within one host.",
		.parse = anynet_parse_word,
		.offset = offsetof(struct anynet_config, congestion),
		.max = TEXT_MAX(congestion),
	},
	{
		.name = "ANYNET_PEER_TIMEOUT",
		.initial = "30s",
		.accepts = "1s to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "How long a peer's host may be silent before its connection counts as broken.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, user_timeout_ms),
		.min = 1 * SEC,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_RECOVERY_TIMEOUT",
		.initial = "60s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "How long to try to restore the last connection to a peer before its requests "
		       "fail. 0: a broken connection fails at once.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, recovery_timeout_ms),
		.min = 0,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_STALL_WARN",
		.initial = "30s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Warn once about requests that have made no progress for so long, and say who "
		       "waits for whom. 0: never.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, stall_warn_ms),
		.min = 0,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_CHECKSUM",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: send a CRC32C behind each piece of a message; what arrives damaged is sent "
		       "again. One side is enough for what it sends.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, checksum),
	},
	{
		.name = "ANYNET_CONNECT_TIMEOUT",
		.initial = "60s",
		.accepts = "100ms to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "For how long a peer that refuses or cannot be reached is tried. One whose host has accepted is waited for.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, connect_timeout_ms),
		.min = SEC / 10,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_HANDSHAKE_TIMEOUT",
		.initial = "5s",
		.accepts = "100ms to 10min, suffix ms, s or min; a bare number is seconds",
		.doc = "What somebody who connects to us may take to introduce himself.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, handshake_timeout_ms),
		.min = SEC / 10,
		.max = 600 * SEC,
	},
	{
		.name = "ANYNET_ALLOW",
		.initial = "",
		.refused = "none",
		.accepts = "address[/prefix],... of at most 511 characters, or none",
		.doc = "Only these networks may connect to us; `none`: nobody. Unset: everybody. A value "
		       "that is not accepted counts as `none`.",
		.parse = anynet_parse_networks,
		.offset = offsetof(struct anynet_config, allow),
		.max = TEXT_MAX(allow),
	},
	{
		.name = "ANYNET_SECRET_FILE",
		.initial = "",
		.refused = "/dev/null", /* not a secret: nothing connects */
		.accepts = "a file name of at most 255 characters",
		.doc = "File with a secret of 16 to 4096 bytes, readable by its owner only. Only peers "
		       "that prove to know the same one are connected.",
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, secret_file),
		.max = TEXT_MAX(secret_file),
	},
	{
		.name = "ANYNET_MAX_RECVS",
		.initial = "8",
		.accepts = "1 to 8",
		.doc = "Receives that NCCL may group into one.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, max_recvs),
		.min = 1,
		.max = ANYNET_RECVS_MAX,
	},
	{
		.name = "ANYNET_PROFILE",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: hand network events to NCCL's profiler (NCCL 2.26 and newer).",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, profile),
	},
	{
		.name = "ANYNET_STATS",
		.initial = "auto",
		.accepts = "auto, off, or a directory as /path of at most 255 characters",
		.doc = "Where each process with open connections has a small file about them, for "
		       "`anynet top`, `dump` and `export`. `auto`: /dev/shm. `off`: nowhere.",
		.parse = anynet_parse_directory,
		.offset = offsetof(struct anynet_config, stats),
		.max = TEXT_MAX(stats),
	},
	{
		.name = "ANYNET_DUMP_DIR",
		.initial = "",
		.accepts = "a directory as /path of at most 255 characters",
		.doc = "Where a process writes what happened to a connection before it failed: a file "
		       "anynet-dump.HOST.PID for all of them. Unset: only to the log, with "
		       "NCCL_DEBUG=INFO.",
		.parse = anynet_parse_path,
		.offset = offsetof(struct anynet_config, dump_dir),
		.max = TEXT_MAX(dump_dir),
	},
};

const size_t anynet_config_row_count = ARRAY_SIZE(anynet_config_rows);
static_assert(ARRAY_SIZE(anynet_config_rows) <= ANYNET_CONFIG_ROWS_MAX, "raise it");
