/* SPDX-License-Identifier: Apache-2.0 */
/* The settings, one row each; those of verbs devices and GPU memory are in config_rows_ib.def. */
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
		.doc = "Networks to offer to NCCL. `auto`: InfiniBand and RoCE where they work, otherwise "
		       "TCP, and one log line says why. `ib`: the same, but two hosts that both have such "
		       "ports and cannot connect through them are an error. `tcp`: TCP only.",
		.parse = anynet_parse_transport,
		.offset = offsetof(struct anynet_config, transport),
	},
#include "config_rows_ib.def"
	{
		.name = "ANYNET_SOCKET_IFNAME",
		.alias = "NCCL_SOCKET_IFNAME",
		.initial = "",
		.accepts = "[^][=]name,... of 2 to 4095 characters",
		.doc = "Interfaces to use, by prefix. A leading `^` excludes the list; a `=` after it "
		       "compares whole names. Unset: NICs are preferred to virtual interfaces.",
		.refused = "=lo", /* loopback only */
		.parse = anynet_parse_ifname,
		.offset = offsetof(struct anynet_config, socket_ifname),
		.max = TEXT_MAX(socket_ifname),
	},
	{
		.name = "ANYNET_SOCKET_FAMILY",
		.alias = "NCCL_SOCKET_FAMILY",
		.initial = "any",
		.accepts = "any, AF_INET or AF_INET6",
		.doc = "Address family. `any`: the first usable address of an interface, IPv4 before IPv6.",
		.parse = anynet_parse_family,
		.offset = offsetof(struct anynet_config, socket_family),
	},
	{
		.name = "ANYNET_SOCKET_SUBNET",
		.alias = "NCCL_COMM_ID",
		.initial = "",
		.accepts = "address, address/prefix, or address:port as in NCCL_COMM_ID",
		.doc = "Use the interfaces in this network, or in the network of the interface that "
		       "contains this address. Ignored if interfaces are named. A host name in NCCL_COMM_ID "
		       "is ignored.",
		.parse = anynet_parse_subnet,
		.offset = offsetof(struct anynet_config, socket_subnet),
		.max = TEXT_MAX(socket_subnet),
	},
	{
		.name = "ANYNET_PORT_RANGE",
		.initial = "auto",
		.accepts = "lo-hi between 1 and 65535, or auto",
		.doc = "TCP ports to listen on, for firewalls; as many as a host has processes. `auto`: the "
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
		.doc = "I/O threads of the process, shared by all connections, in addition to NCCL's thread.",
		.parse = anynet_parse_auto_int,
		.offset = offsetof(struct anynet_config, io_threads),
		.min = 0,
		.max = 16,
		.lowered = true,
	},
	{
		.name = "ANYNET_TCP_CONNECTIONS",
		.alias = "NCCL_NSOCKS_PERTHREAD",
		.initial = "auto",
		.accepts = "1 to 64, or auto",
		.doc = "TCP connections of each connection of NCCL, for each pair of NICs. From NCCL's "
		       "variables: threads times sockets per thread.",
		.parse = anynet_parse_auto_int,
		.offset = offsetof(struct anynet_config, streams_per_nic),
		.min = 1,
		.max = ANYNET_STREAMS_MAX,
		.lowered = true,
	},
	{
		.name = "ANYNET_TCP_STRIPE",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "Spread every connection over all equal NICs. `auto`: not if the host has as many "
		       "NICs as GPUs, because NCCL then spreads its channels.",
		.parse = anynet_parse_switch,
		.offset = offsetof(struct anynet_config, stripe),
	},
	{
		.name = "ANYNET_TCP_EAGER",
		.initial = "32k",
		.accepts = "0 to 1m bytes, suffix k or m",
		.doc = "Sends up to this size are copied, and done when the kernel has the copy.",
		.parse = anynet_parse_size,
		.offset = offsetof(struct anynet_config, eager_bytes),
		.min = 0,
		.max = 1 * MIB,
	},
	{
		.name = "ANYNET_TCP_REPLAY",
		.initial = "256k",
		.accepts = "4k to 64m bytes, suffix k or m",
		.doc = "Memory per send connection for copies that the peer has not acknowledged.",
		.parse = anynet_parse_size,
		.offset = offsetof(struct anynet_config, replay_bytes),
		.min = 4 * KIB,
		.max = 64 * MIB,
	},
	{
		.name = "ANYNET_TCP_KEEP",
		.initial = "auto",
		.accepts = "0 to 64m bytes, suffix k or m, or auto",
		.doc = "Memory per send connection for large sends that are copied and complete when the "
		       "kernel has taken them. `auto`: 8m if round trip times speed exceeds 1m, otherwise "
		       "none. Not used with `ANYNET_TCP_ZEROCOPY=on`.",
		.parse = anynet_parse_auto_size,
		.offset = offsetof(struct anynet_config, keep_bytes),
		.min = 0,
		.max = 64 * MIB,
	},
	{
		.name = "ANYNET_TCP_CHUNK",
		.initial = "128k",
		.accepts = "4k to 1g bytes, a multiple of 128, suffix k, m or g",
		.doc = "Largest piece of a message on one TCP connection if a peer has several.",
		.parse = anynet_parse_chunk,
		.offset = offsetof(struct anynet_config, chunk_bytes),
		.min = 4 * KIB,
		.max = 1 * GIB,
	},
	{
		.name = "ANYNET_TCP_ZEROCOPY",
		.initial = "auto",
		.accepts = "auto, on or off",
		.doc = "Send large messages with MSG_ZEROCOPY. `auto`: if the kernel really avoids the copy.",
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
		.doc = "Congestion control algorithm, as in TCP_CONGESTION. Unset: the kernel's default, "
		       "and Cubic within one host.",
		.parse = anynet_parse_word,
		.offset = offsetof(struct anynet_config, congestion),
		.max = TEXT_MAX(congestion),
	},
	{
		.name = "ANYNET_PEER_TIMEOUT",
		.initial = "30s",
		.accepts = "1s to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time without a sign of life from a peer's host after which a connection counts as "
		       "broken.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, peer_timeout_ms),
		.min = 1 * SEC,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_RECOVERY_TIMEOUT",
		.initial = "60s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time to recover a connection to a peer before its requests fail. 0: a broken "
		       "connection fails at once.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, recovery_timeout_ms),
		.min = 0,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_STALL_WARN",
		.initial = "30s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Warn once about requests without progress for this time, and say who waits for "
		       "whom. 0: never.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, stall_warn_ms),
		.min = 0,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_CHECKSUM",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: add a CRC32C to each piece of a message; damaged data is retransmitted. Each "
		       "side decides for what it sends. InfiniBand and RoCE are not used then.",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, checksum),
	},
	{
		.name = "ANYNET_CONNECT_TIMEOUT",
		.initial = "60s",
		.accepts = "100ms to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time to keep trying to connect to a peer that refuses or cannot be reached. A peer "
		       "whose host has accepted the connection is waited for without limit.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, connect_timeout_ms),
		.min = SEC / 10,
		.max = 3600 * SEC,
	},
	{
		.name = "ANYNET_HANDSHAKE_TIMEOUT",
		.initial = "5s",
		.accepts = "100ms to 10min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time for an incoming connection to complete its handshake.",
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
		.doc = "Networks that may connect to this process; `none`: no network. Unset: all. An "
		       "invalid value counts as `none`.",
		.parse = anynet_parse_networks,
		.offset = offsetof(struct anynet_config, allow),
		.max = TEXT_MAX(allow),
	},
	{
		.name = "ANYNET_SECRET_FILE",
		.initial = "",
		.refused = "/dev/null", /* not a valid secret: all connections are refused */
		.accepts = "a file name of at most 255 characters",
		.doc = "File with a secret of 16 to 4096 bytes, readable by its owner only. Only peers that "
		       "prove that they know the same secret can connect.",
		.parse = anynet_parse_text,
		.offset = offsetof(struct anynet_config, secret_file),
		.max = TEXT_MAX(secret_file),
	},
	{
		.name = "ANYNET_MAX_RECVS",
		.initial = "8",
		.accepts = "1 to 8",
		.doc = "Receives that NCCL may group into one. With 1, ranks of a host share no connections. "
		       "Set it to 1 on all hosts or on none, else operations hang.",
		.parse = anynet_parse_int,
		.offset = offsetof(struct anynet_config, max_recvs),
		.min = 1,
		.max = ANYNET_RECVS_MAX,
	},
	{
		.name = "ANYNET_PROFILE",
		.initial = "0",
		.accepts = "0 or 1",
		.doc = "1: report network events to NCCL's profiler (NCCL 2.26 and newer).",
		.parse = anynet_parse_flag,
		.offset = offsetof(struct anynet_config, profile),
	},
	{
		.name = "ANYNET_STATS",
		.initial = "auto",
		.accepts = "auto, off, or a directory as /path of at most 255 characters",
		.doc = "Directory of the statistics file that each process with open connections writes, "
		       "for `anynet top`, `dump` and `export`. `auto`: /dev/shm. `off`: no file.",
		.parse = anynet_parse_directory,
		.offset = offsetof(struct anynet_config, stats),
		.max = TEXT_MAX(stats),
	},
	{
		.name = "ANYNET_DUMP_DIR",
		.initial = "",
		.accepts = "a directory as /path of at most 255 characters",
		.doc = "Directory in which a process writes the events of a failed connection, in one file "
		       "anynet-dump.HOST.PID for all connections. Unset: only to the log, with "
		       "NCCL_DEBUG=INFO.",
		.parse = anynet_parse_path,
		.offset = offsetof(struct anynet_config, dump_dir),
		.max = TEXT_MAX(dump_dir),
	},
};

const size_t anynet_config_row_count = ARRAY_SIZE(anynet_config_rows);
static_assert(ARRAY_SIZE(anynet_config_rows) <= ANYNET_CONFIG_ROWS_MAX, "raise it");
