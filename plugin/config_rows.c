/* SPDX-License-Identifier: Apache-2.0 */
/* The settings, one row each; those of verbs devices and GPU memory are in config_rows_ib.def. */
#include <nccl_net/config.h>

#include <assert.h>
#include <stdint.h>

#include "config_parse.h"

#include <nccl_net/comm.h>
#include <nccl_net/util.h>
#include <nccl_net/wire.h>

/* The end of a row: how the field of struct anynet_config is parsed, and its bounds. */
#define FIELD(parser, member)                     .parse = parser, .offset = offsetof(struct anynet_config, member)
#define NUMBER_FIELD(parser, member, least, most) FIELD(parser, member), .min = least, .max = most
#define TEXT_FIELD(parser, member) \
	FIELD(parser, member), .max = sizeof(((struct anynet_config *)NULL)->member) - 1
#define FLAG_FIELD(member)   FIELD(anynet_parse_flag, member), .accepts = "0 or 1"
#define CHOICE_FIELD(words, member) FIELD(anynet_parse_choice, member), .choices = words
#define SWITCH_FIELD(member) \
	CHOICE_FIELD(anynet_switch_choices, member), .accepts = "auto, on or off"

const struct anynet_config_row anynet_config_rows[] = {
	{
		.name = "ANYNET_TRANSPORT",
		.initial = "auto",
		.accepts = "auto, ib or tcp",
		.doc = "Networks to offer to NCCL. `auto`: InfiniBand and RoCE where they work, otherwise "
		       "TCP, and one log line says why. `ib`: the same, but two hosts that both have such "
		       "ports and cannot connect through them are an error. `tcp`: TCP only.",
		CHOICE_FIELD(anynet_transport_choices, transport),
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
		TEXT_FIELD(anynet_parse_ifname, socket_ifname),
	},
	{
		.name = "ANYNET_SOCKET_FAMILY",
		.alias = "NCCL_SOCKET_FAMILY",
		.initial = "any",
		.accepts = "any, AF_INET or AF_INET6",
		.doc = "Address family. `any`: the first usable address of an interface, IPv4 before IPv6.",
		CHOICE_FIELD(anynet_family_choices, socket_family),
	},
	{
		.name = "ANYNET_SOCKET_SUBNET",
		.alias = "NCCL_COMM_ID",
		.initial = "",
		.accepts = "address, address/prefix, or address:port as in NCCL_COMM_ID",
		.doc = "Use the interfaces in this network, or in the network of the interface that "
		       "contains this address. Ignored if interfaces are named. A host name in NCCL_COMM_ID "
		       "is ignored.",
		TEXT_FIELD(anynet_parse_subnet, socket_subnet),
	},
	{
		.name = "ANYNET_PORT_RANGE",
		.initial = "auto",
		.accepts = "lo-hi between 1 and 65535, or auto",
		.doc = "TCP ports to listen on, for firewalls; as many as a host has processes. `auto`: the "
		       "kernel's ephemeral ports.",
		NUMBER_FIELD(anynet_parse_ports, port_min, 1, UINT16_MAX),
	},
	{
		.name = "ANYNET_IO_THREADS",
		.alias = "NCCL_SOCKET_NTHREADS",
		.initial = "auto",
		.accepts = "0 to 16, or auto",
		.doc = "I/O threads of the process, shared by all connections, in addition to NCCL's thread.",
		NUMBER_FIELD(anynet_parse_auto_int, io_threads, 0, 16),
		.lowered = true,
	},
	{
		.name = "ANYNET_TCP_CONNECTIONS",
		.alias = "NCCL_NSOCKS_PERTHREAD",
		.initial = "auto",
		.accepts = "1 to 64, or auto",
		.doc = "TCP connections of each NCCL connection, for each pair of NICs. From NCCL's variables: "
		       "threads times sockets per thread.",
		NUMBER_FIELD(anynet_parse_auto_int, streams_per_nic, 1, ANYNET_STREAMS_MAX),
		.lowered = true,
	},
	{
		.name = "ANYNET_TCP_STRIPE",
		.initial = "auto",
		.doc = "Spread every connection over all equal NICs. `auto`: not if the host has as many "
		       "NICs as GPUs, because NCCL then spreads its channels. Recovery uses all NICs.",
		SWITCH_FIELD(stripe),
	},
	{
		.name = "ANYNET_TCP_EAGER",
		.initial = "32k",
		.accepts = "0 to 1m bytes, suffix k or m",
		.doc = "Sends up to this size are copied, and done when the kernel has the copy.",
		NUMBER_FIELD(anynet_parse_size, eager_bytes, 0, 1 * MIB),
	},
	{
		.name = "ANYNET_TCP_REPLAY",
		.initial = "256k",
		.accepts = "4k to 64m bytes, suffix k or m",
		.doc = "Memory per send connection for copies that the peer has not acknowledged.",
		NUMBER_FIELD(anynet_parse_size, replay_bytes, 4 * KIB, 64 * MIB),
	},
	{
		.name = "ANYNET_TCP_KEEP",
		.initial = "auto",
		.accepts = "0 to 64m bytes, suffix k or m, or auto",
		.doc = "Memory per send connection for large sends that are copied and complete when the "
		       "kernel has taken them. `auto`: 8m if round trip times speed exceeds 1m, otherwise "
		       "none. Not used with `ANYNET_TCP_ZEROCOPY=on`.",
		NUMBER_FIELD(anynet_parse_auto_size, keep_bytes, 0, 64 * MIB),
	},
	{
		.name = "ANYNET_TCP_CHUNK",
		.initial = "128k",
		.accepts = "4k to 1g bytes, a multiple of 128, suffix k, m or g",
		.doc = "Largest piece of a message on one TCP connection if a peer has several.",
		NUMBER_FIELD(anynet_parse_chunk, chunk_bytes, 4 * KIB, 1 * GIB),
	},
	{
		.name = "ANYNET_TCP_ZEROCOPY",
		.initial = "auto",
		.doc = "Send large messages with MSG_ZEROCOPY. `auto`: if the kernel really avoids the copy.",
		SWITCH_FIELD(zerocopy),
	},
	{
		.name = "ANYNET_TCP_SNDBUF",
		.alias = "NCCL_SOCKET_SNDBUF",
		.initial = "auto",
		.accepts = "1 to 1g bytes, suffix k, m or g, or auto",
		.doc = "SO_SNDBUF. `auto`: the kernel tunes it.",
		NUMBER_FIELD(anynet_parse_auto_size, sndbuf_bytes, 1, 1 * GIB),
	},
	{
		.name = "ANYNET_TCP_RCVBUF",
		.alias = "NCCL_SOCKET_RCVBUF",
		.initial = "auto",
		.accepts = "1 to 1g bytes, suffix k, m or g, or auto",
		.doc = "SO_RCVBUF. `auto`: the kernel tunes it.",
		NUMBER_FIELD(anynet_parse_auto_size, rcvbuf_bytes, 1, 1 * GIB),
	},
	{
		.name = "ANYNET_TCP_CONGESTION",
		.initial = "",
		.accepts = "a name of at most 15 letters, digits, '-' and '_'",
		.doc = "Congestion control algorithm, as in TCP_CONGESTION. Unset: the kernel's default, "
		       "and Cubic within one host.",
		TEXT_FIELD(anynet_parse_word, congestion),
	},
	{
		.name = "ANYNET_PEER_TIMEOUT",
		.initial = "30s",
		.accepts = "1s to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time without a sign of life from a peer's host after which a connection counts as "
		       "broken.",
		NUMBER_FIELD(anynet_parse_time, peer_timeout_ms, 1 * SEC, 3600 * SEC),
	},
	{
		.name = "ANYNET_RECOVERY_TIMEOUT",
		.initial = "60s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time to recover a connection to a peer before its requests fail. 0: a broken "
		       "connection fails at once.",
		NUMBER_FIELD(anynet_parse_time, recovery_timeout_ms, 0, 3600 * SEC),
	},
	{
		.name = "ANYNET_STALL_WARN",
		.initial = "30s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Warn once about requests without progress for this time, and say who waits for "
		       "whom. 0: never.",
		NUMBER_FIELD(anynet_parse_time, stall_warn_ms, 0, 3600 * SEC),
	},
	{
		.name = "ANYNET_CHECKSUM",
		.initial = "0",
		.doc = "1: add a CRC32C to each piece of a message; damaged data is retransmitted. Each "
		       "side decides for what it sends. InfiniBand and RoCE are not used then.",
		FLAG_FIELD(checksum),
	},
	{
		.name = "ANYNET_CONNECT_TIMEOUT",
		.initial = "60s",
		.accepts = "100ms to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time to keep trying to connect to a peer that refuses or cannot be reached. A peer "
		       "whose host has accepted the connection is waited for without limit.",
		NUMBER_FIELD(anynet_parse_time, connect_timeout_ms, SEC / 10, 3600 * SEC),
	},
	{
		.name = "ANYNET_HANDSHAKE_TIMEOUT",
		.initial = "5s",
		.accepts = "100ms to 10min, suffix ms, s or min; a bare number is seconds",
		.doc = "Time for an incoming connection to complete its handshake.",
		NUMBER_FIELD(anynet_parse_time, handshake_timeout_ms, SEC / 10, 600 * SEC),
	},
	{
		.name = "ANYNET_ALLOW",
		.initial = "",
		.refused = "none",
		.accepts = "address[/prefix],... of at most 511 characters, or none",
		.doc = "Networks that may connect to this process; `none`: no network. Unset: all. An "
		       "invalid value counts as `none`.",
		TEXT_FIELD(anynet_parse_networks, allow),
	},
	{
		.name = "ANYNET_SECRET_FILE",
		.initial = "",
		.refused = "/dev/null", /* not a valid secret: all connections are refused */
		.accepts = "a file name of at most 255 characters",
		.doc = "File with a secret of 16 to 4096 bytes, readable by its owner only. Only peers that "
		       "prove that they know the same secret can connect.",
		TEXT_FIELD(anynet_parse_text, secret_file),
	},
	{
		.name = "ANYNET_MAX_RECVS",
		.initial = "8",
		.accepts = "1 to 8",
		.doc = "Receives that NCCL may group into one. With 1, ranks of a host share no connections. "
		       "Set it to 1 on all hosts or on none, else operations hang.",
		NUMBER_FIELD(anynet_parse_int, max_recvs, 1, ANYNET_RECVS_MAX),
	},
	{
		.name = "ANYNET_PROFILE",
		.initial = "0",
		.doc = "1: report network events to NCCL's profiler (NCCL 2.26 and newer).",
		FLAG_FIELD(profile),
	},
	{
		.name = "ANYNET_STATS",
		.initial = "auto",
		.accepts = "auto, off, or a directory as /path of at most 255 characters",
		.doc = "Directory of the statistics file that each process with open connections writes, "
		       "for `anynet top`, `dump` and `export`. `auto`: /dev/shm. `off`: no file.",
		TEXT_FIELD(anynet_parse_directory, stats),
	},
	{
		.name = "ANYNET_DUMP_DIR",
		.initial = "",
		.accepts = "a directory as /path of at most 255 characters",
		.doc = "Directory in which a process writes the events of a failed connection, in one file "
		       "anynet-dump.HOST.PID for all connections. Unset: only to the log, with "
		       "NCCL_DEBUG=INFO.",
		TEXT_FIELD(anynet_parse_path, dump_dir),
	},
};

const size_t anynet_config_row_count = ARRAY_SIZE(anynet_config_rows);
static_assert(ARRAY_SIZE(anynet_config_rows) <= ANYNET_CONFIG_ROWS_MAX, "raise it");
