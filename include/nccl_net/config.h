/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings. Each one is a row of the table in plugin/config_rows.c: name, NCCL variable accepted as alias, default,
 * parser and documentation. The tool, the table in docs/settings.md and the tests are generated from the rows.
 *
 * anynet_config_load reads the environment once, under the core's init lock. Afterwards the structure is read-only and
 * passed down as a const pointer.
 */
#ifndef ANYNET_CONFIG_H
#define ANYNET_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ANYNET_AUTO       (-1)
#define ANYNET_LIST_BYTES 4096 /* longest list of NICs, with its NUL */

enum anynet_transport_choice { ANYNET_CHOOSE_AUTO, ANYNET_CHOOSE_IB, ANYNET_CHOOSE_TCP };
enum anynet_switch { ANYNET_SWITCH_AUTO = -1, ANYNET_SWITCH_OFF = 0, ANYNET_SWITCH_ON = 1 };

struct anynet_config {
	int transport;	     /* enum anynet_transport_choice; ANYNET_TRANSPORT */
	bool ib_disable;     /* NCCL_IB_DISABLE */
	char ib_hca[ANYNET_LIST_BYTES]; /* NCCL_IB_HCA syntax (net-api.md §5.4); "" = all */
	char ibverbs_lib[256]; /* file name to try before libibverbs.so.1; "" = none */
	int ib_gid_index;      /* RoCE: index in the GID table; ANYNET_AUTO = chosen for each port and peer */
	int ib_roce_version;   /* preferred version, 1 or 2 */
	int ib_addr_family;    /* RoCE: preferred family, AF_INET or AF_INET6; AF_UNSPEC = any */
	char ib_addr_range[64]; /* RoCE: network that the GID must be in, "addr/prefix"; "" = any */
	int ib_flid_gid_index; /* InfiniBand: index of the GID to use if it is routable; otherwise GID 0 is used */
	bool ib_merge_vfs;     /* report the virtual functions of a card as one PCI device */
	int ib_data_direct;    /* Data Direct engines: 0 = no, 1 = instead of the plain device, 2 = in addition */
	int ib_merge_nics;     /* NCCL may fuse ports: 0 = no, 1 = those of physical NICs, 2 = virtual ones as well */
	bool ib_pci_order;     /* order devices by PCI address; false = by the kernel's list */
	int ib_timeout;	       /* queue pair's ack timeout: 4.096 us * 2^n */
	int ib_retry_cnt;      /* queue pair's retries after that timeout, 0 … 7 */
	int ib_sl;	       /* service level; ANYNET_AUTO = NCCL's traffic class, or 0 if unset */
	int ib_tc;	       /* traffic class; ANYNET_AUTO = NCCL's, or 0 if unset */
	int ib_pkey;	       /* index of the partition key */
	int ib_adaptive;       /* adaptive routing, 0 or 1; ANYNET_AUTO = 1 on InfiniBand */
	size_t ib_ar_threshold; /* with adaptive routing, larger messages are a WRITE and a SEND */
	int ib_qps;            /* queue pairs per comm and port */
	bool ib_split;         /* split each message over the queue pairs of its comm */
	bool ib_ece;           /* negotiate ECE (enhanced connection establishment) */
	bool ib_loopback;      /* offer a port only if it passes the loopback test */
	bool ib_cm;	       /* connect queue pairs by the RDMA CM; both ends must set it */
	char rdmacm_lib[256];  /* file name to try before librdmacm.so.1; "" = none */
	int ib_relaxed;        /* PCIe relaxed ordering: 0 = never, 1 or 2 = if libibverbs supports it */

	int ib_peer_memory;    /* enum anynet_switch: NICs access GPU memory through a peer-memory module */
	char cuda_lib[256];    /* CUDA driver library; "" = libcuda.so.1 */
	int cuda_own_context;  /* enum anynet_switch: copy GPU memory in a CUDA context of the plugin */
	bool tcp_cuda;	       /* TCP devices accept GPU memory and copy it through host memory */
	bool flush_disable;    /* do not flush data that a NIC has written to GPU memory */

	char socket_ifname[ANYNET_LIST_BYTES]; /* NCCL_SOCKET_IFNAME syntax (net-api.md §5.3); "" = automatic */
	int socket_family;	 /* AF_UNSPEC, AF_INET or AF_INET6 */
	char socket_subnet[64];	 /* prefer interfaces in this network: "addr[/prefix]"; "" = any */
	bool socket_subnet_own;  /* from ANYNET_SOCKET_SUBNET, not from NCCL_COMM_ID */
	int port_min, port_max;	 /* listening ports; 0, 0 = ephemeral */

	int io_threads;	   /* I/O threads of the process; ANYNET_AUTO = by cores and link speed */
	int streams_per_nic; /* TCP streams of a comm on each pair of NICs; ANYNET_AUTO = by link speed */
	int stripe;	   /* enum anynet_switch: spread each comm over all equal NICs */
	size_t eager_bytes;  /* sends up to this size are copied and done at once */
	size_t replay_bytes; /* size of a send comm's replay ring */
	int keep_bytes; /* memory of a send comm for copies of large sends; ANYNET_AUTO = by round trip; 0 = none */
	size_t chunk_bytes;  /* largest chunk when a comm has several streams */
	int zerocopy;	     /* enum anynet_switch: MSG_ZEROCOPY */
	int sndbuf_bytes;    /* SO_SNDBUF; ANYNET_AUTO = the kernel's autotuning */
	int rcvbuf_bytes;    /* SO_RCVBUF; ANYNET_AUTO = the kernel's autotuning */
	char congestion[16]; /* TCP_CONGESTION; "" = the kernel's default, Cubic within a host */
	int peer_timeout_ms; /* ANYNET_PEER_TIMEOUT: silence of the peer's host that breaks a connection */
	int recovery_timeout_ms; /* time to recover a comm's last stream; 0 = the comm fails at once */
	int stall_warn_ms;   /* requests without progress for this time cause a WARN; 0 = never */
	bool checksum;	     /* CRC32C behind each chunk */

	int connect_timeout_ms;	  /* time to keep trying a peer that refuses or cannot be reached */
	int handshake_timeout_ms; /* time for an accepted connection to complete its handshake */
	char allow[512];	  /* networks that may connect: "addr[/prefix],…"; "" = all, "none" = no network */
	char secret_file[256];	  /* file with the secret that every peer must know; "" = no secret */
	int max_recvs;		  /* largest grouped receive offered to NCCL, 1 … 8 */
	bool profile;		  /* report network events to NCCL's profiler (v10+) */
	char stats[256];	  /* directory of the statistics file, or "auto"; "" or "off" = no file */
	char dump_dir[256];	  /* directory for the events of failed comms; "" = no file */

	/* Not settings. Job and rank as the launcher's variables name them; "" = not found. The network name that NCCL uses for
	 * the plugin, which core.c sets. */
	char job[64], rank[16], net[16];

	/* For tests of wrap-around: the number of each comm's first message. */
	uint32_t first_number;
	/* For tests: added to ANYNET_WIRE_OLDEST and ANYNET_WIRE_VERSION. */
	uint16_t wire_oldest_later, wire_newest_later;
};

/* Origin of a value, for `anynet config`. */
enum anynet_config_source { ANYNET_FROM_DEFAULT, ANYNET_FROM_ENV, ANYNET_FROM_ALIAS };

/* A word and what it means. */
struct anynet_choice {
	const char *text;
	int value;
};

/*
 * One row. `initial` has the form that a user types and goes through `parse` like any other value, so the tests cover
 * defaults. `parse` writes the field and returns 0, or leaves the field unchanged and returns -EINVAL.
 */
struct anynet_config_row {
	const char *name;    /* "ANYNET_PORT_RANGE" */
	const char *alias;   /* NCCL variable used when `name` is unset; NULL = none */
	const char *initial; /* default as text */
	const char *refused; /* value that replaces an invalid one; NULL = initial */
	const char *accepts; /* accepted values in words, for error messages and tables */
	const char *doc;     /* description for docs/settings.md and `anynet config` */
	int (*parse)(const struct anynet_config_row *row, const char *text,
		     struct anynet_config *cfg);
	size_t offset; /* of the field in struct anynet_config */
	long min, max; /* bounds of a number; max of a text: its length without the NUL */
	/* Of a word, up to text NULL; a value's first word is the one to print. NULL = not a word. */
	const struct anynet_choice *choices;
	bool lowered; /* a larger number in `alias` counts as max, as in NCCL, and users' scripts rely on that */
};

#define ANYNET_CONFIG_ROWS_MAX 64

extern const struct anynet_config_row anynet_config_rows[];
extern const size_t anynet_config_row_count;

/*
 * Fill *cfg from the environment. Never fails. An invalid value causes a WARN that quotes it and the accepted form; the
 * field gets the row's `refused`, which for access restrictions admits nobody, or the default. An unknown ANYNET_* name
 * or a misspelt NCCL_* one causes a WARN. `sources` may be NULL; otherwise it has anynet_config_row_count entries and
 * is filled as well.
 */
void anynet_config_load(struct anynet_config *cfg, enum anynet_config_source *sources);

/* Parse one value as anynet_config_load does, without leading and trailing blanks. 0, or negative if the value is
 * invalid; the field is then unchanged. */
int anynet_config_parse(const struct anynet_config_row *row, const char *value,
			struct anynet_config *cfg);

/* The value of one row in the form that a user types. Returns buf. */
const char *anynet_config_format(const struct anynet_config_row *row,
				 const struct anynet_config *cfg, char *buf, size_t bytes);

/* The settings table as Markdown, for docs/settings.md. */
void anynet_config_print_markdown(FILE *out);

#endif
