/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, how it is filled from the environment, and how it is printed. */
#include <nccl_net/config.h>

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "config_names.h"
#include "config_parse.h"

#include <nccl_net/comm.h>
#include <nccl_net/log.h>
#include <nccl_net/wire.h>

#define KIB 1024L
#define MIB (1024L * KIB)
#define GIB (1024L * MIB)
#define SEC 1000L /* milliseconds */

#define TEXT_MAX(member) (sizeof(((struct anynet_config *)NULL)->member) - 1)

const struct anynet_config_row anynet_config_rows[] = {
	{
		.name = "ANYNET_TRANSPORT",
		.initial = "auto",
		.accepts = "auto, ib or tcp",
		.doc = "Which networks to offer to NCCL. `auto` follows NCCL_NET: `Socket` means "
		       "TCP only. `ib` prefers verbs and falls back to TCP with a warning.",
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
		.accepts = "[^][=]name[:port],... of at most 255 characters",
		.doc = "Verbs devices to use, by prefix. A leading `^` excludes the list instead; a "
		       "`=` after it compares whole names.",
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
		.name = "ANYNET_SOCKET_IFNAME",
		.alias = "NCCL_SOCKET_IFNAME",
		.initial = "",
		.accepts = "[^][=]name,... of 2 to 255 characters",
		.doc = "Interfaces to use, by prefix. A leading `^` excludes the list instead; a `=` "
		       "after it compares whole names. Unset: NICs before virtual ones.",
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
		.doc = "Spread every connection over all equal NICs.",
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
		.name = "ANYNET_HEAL_TIMEOUT",
		.initial = "60s",
		.accepts = "0 to 60min, suffix ms, s or min; a bare number is seconds",
		.doc = "How long to try to restore the last connection to a peer before its requests "
		       "fail. 0: a broken connection fails at once.",
		.parse = anynet_parse_time,
		.offset = offsetof(struct anynet_config, heal_timeout_ms),
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
		.doc = "Deadline for the whole of connecting to a peer, retries included.",
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
};

const size_t anynet_config_row_count = ARRAY_SIZE(anynet_config_rows);

/* Parse `value` without the blanks around it. */
static int row_parse(const struct anynet_config_row *row, const char *value,
		     struct anynet_config *cfg)
{
	char text[512];
	size_t bytes;

	value += strspn(value, " \t\r\n");
	bytes = strlen(value);
	while (bytes && strchr(" \t\r\n", value[bytes - 1]))
		bytes--;
	if (bytes >= sizeof(text))
		return -1;
	memcpy(text, value, bytes);
	text[bytes] = 0;
	return row->parse(row, text, cfg);
}

/* NCCL lowers counts that are too large; its users' scripts rely on it. */
static bool row_lower_count(const struct anynet_config_row *row, const char *value,
			    struct anynet_config *cfg)
{
	char most[32];
	long number;

	if (row->parse != anynet_parse_auto_int || anynet_parse_number(value, &number) ||
	    number <= row->max)
		return false;
	snprintf(most, sizeof(most), "%ld", row->max);
	anynet_warn("%s %.80s is more than %s; using %s", row->alias, value, most, most);
	return !row->parse(row, most, cfg);
}

/* An empty variable counts as unset, as it does in NCCL. */
static const char *get_variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

static enum anynet_config_source row_load(const struct anynet_config_row *row,
					  struct anynet_config *cfg)
{
	const char *value = get_variable(row->name);
	const char *instead = row->refused ? row->refused : row->initial;
	enum anynet_config_source source = ANYNET_FROM_ENV;

	if (row_parse(row, row->initial, cfg))
		anynet_warn("%s: default '%s' does not parse", row->name, row->initial);
	if (!value) {
		value = get_variable(row->alias);
		source = ANYNET_FROM_ALIAS;
	}
	if (!value)
		return ANYNET_FROM_DEFAULT;
	if (!row_parse(row, value, cfg))
		return source;
	if (source == ANYNET_FROM_ALIAS && row_lower_count(row, value, cfg))
		return source;
	anynet_warn("%s '%.80s' is not accepted (%s); using %s",
		    source == ANYNET_FROM_ENV ? row->name : row->alias, value, row->accepts,
		    *instead ? instead : "the default");
	row->parse(row, instead, cfg);
	return ANYNET_FROM_DEFAULT;
}

static size_t row_index(size_t offset)
{
	size_t i = 0;

	while (anynet_config_rows[i].offset != offset)
		i++;
	return i;
}

/* In NCCL the streams of a connection are threads times sockets per thread, and one socket per
 * thread unless said otherwise (net-api.md §5.3). Rails need no threads, so 0 threads count as 1. */
static void honour_nccl_streams(struct anynet_config *cfg, enum anynet_config_source *sources)
{
	enum anynet_config_source *rails_from =
		&sources[row_index(offsetof(struct anynet_config, rails_per_nic))];
	size_t threads_row = row_index(offsetof(struct anynet_config, io_threads));
	int rails;

	if (sources[threads_row] != ANYNET_FROM_ALIAS || cfg->io_threads <= 0 ||
	    *rails_from == ANYNET_FROM_ENV)
		return;
	rails = cfg->io_threads * (cfg->rails_per_nic > 0 ? cfg->rails_per_nic : 1);
	if (rails > ANYNET_RAILS_MAX) {
		anynet_warn("NCCL_SOCKET_NTHREADS %d times NCCL_NSOCKS_PERTHREAD %d is more than "
			    "%d; using %d rails",
			    cfg->io_threads, cfg->rails_per_nic, ANYNET_RAILS_MAX,
			    ANYNET_RAILS_MAX);
		rails = ANYNET_RAILS_MAX;
	}
	cfg->rails_per_nic = rails;
	*rails_from = ANYNET_FROM_ALIAS;
}

/* A copied send stays in the replay ring until it is acknowledged: half the ring at most. */
static void fit_eager_into_replay(struct anynet_config *cfg)
{
	size_t most = cfg->replay_bytes / 2;

	if (cfg->eager_bytes <= most)
		return;
	anynet_warn("ANYNET_TCP_EAGER %zu is more than half of ANYNET_TCP_REPLAY %zu; using %zu",
		    cfg->eager_bytes, cfg->replay_bytes, most);
	cfg->eager_bytes = most;
}

void anynet_config_load(struct anynet_config *cfg, enum anynet_config_source *sources)
{
	enum anynet_config_source scratch[ARRAY_SIZE(anynet_config_rows)];

	if (!sources)
		sources = scratch;
	memset(cfg, 0, sizeof(*cfg));
	for (size_t i = 0; i < ARRAY_SIZE(anynet_config_rows); i++)
		sources[i] = row_load(&anynet_config_rows[i], cfg);
	honour_nccl_streams(cfg, sources);
	fit_eager_into_replay(cfg);
	anynet_config_check_names();
}

static const char *format_bytes(long bytes, char *buf, size_t buf_bytes)
{
	if (bytes == ANYNET_AUTO)
		snprintf(buf, buf_bytes, "auto");
	else if (bytes && bytes % GIB == 0)
		snprintf(buf, buf_bytes, "%ldg", bytes / GIB);
	else if (bytes && bytes % MIB == 0)
		snprintf(buf, buf_bytes, "%ldm", bytes / MIB);
	else if (bytes && bytes % KIB == 0)
		snprintf(buf, buf_bytes, "%ldk", bytes / KIB);
	else
		snprintf(buf, buf_bytes, "%ld", bytes);
	return buf;
}

static const char *format_int(int value, char *buf, size_t bytes)
{
	if (value == ANYNET_AUTO)
		snprintf(buf, bytes, "auto");
	else
		snprintf(buf, bytes, "%d", value);
	return buf;
}

static const char *format_time(int ms, char *buf, size_t bytes)
{
	if (ms % SEC)
		snprintf(buf, bytes, "%dms", ms);
	else
		snprintf(buf, bytes, "%lds", ms / SEC);
	return buf;
}

static const char *transport_name(int transport)
{
	return transport == ANYNET_CHOOSE_IB    ? "ib"
	       : transport == ANYNET_CHOOSE_TCP ? "tcp"
						: "auto";
}

static const char *family_name(int family)
{
	return family == AF_INET ? "AF_INET" : family == AF_INET6 ? "AF_INET6" : "any";
}

const char *anynet_config_format(const struct anynet_config_row *row,
				 const struct anynet_config *cfg, char *buf, size_t bytes)
{
	const void *field = (const char *)cfg + row->offset;
	const int *number = field; /* of the rows that are ints */

	if (row->parse == anynet_parse_size || row->parse == anynet_parse_chunk)
		return format_bytes((long)*(const size_t *)field, buf, bytes);
	if (row->parse == anynet_parse_auto_size)
		return format_bytes(*number, buf, bytes);
	if (row->parse == anynet_parse_time)
		return format_time(*number, buf, bytes);
	if (row->parse == anynet_parse_int || row->parse == anynet_parse_auto_int)
		return format_int(*number, buf, bytes);
	if (row->parse == anynet_parse_ports && cfg->port_min)
		snprintf(buf, bytes, "%d-%d", cfg->port_min, cfg->port_max);
	else if (row->parse == anynet_parse_ports)
		snprintf(buf, bytes, "auto");
	else if (row->parse == anynet_parse_flag)
		snprintf(buf, bytes, "%d", *(const bool *)field);
	else if (row->parse == anynet_parse_switch)
		snprintf(buf, bytes, "%s", *number < 0 ? "auto" : *number ? "on" : "off");
	else if (row->parse == anynet_parse_transport)
		snprintf(buf, bytes, "%s", transport_name(*number));
	else if (row->parse == anynet_parse_family)
		snprintf(buf, bytes, "%s", family_name(*number));
	else
		snprintf(buf, bytes, "%s", (const char *)field);
	return buf;
}

void anynet_config_print_markdown(FILE *out)
{
	fprintf(out, "| setting | NCCL's variable, if ours is unset | default | accepted | "
		     "meaning |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < ARRAY_SIZE(anynet_config_rows); i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];

		fprintf(out, "| `%s` | %s%s%s | %s%s%s | %s | %s |\n", row->name,
			row->alias ? "`" : "", row->alias ? row->alias : "", row->alias ? "`" : "",
			*row->initial ? "`" : "", row->initial, *row->initial ? "`" : "",
			row->accepts, row->doc);
	}
}
