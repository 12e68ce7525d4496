/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings. A row of the table in plugin/config_rows.c is the only place where a setting exists: its
 * name, NCCL's own variable honoured as alias, default, parser and documentation. The tool, the
 * table in docs/settings.md and the tests are made from the rows.
 *
 * The environment is read once, by anynet_config_load under the core's init lock; afterwards the
 * structure is read-only and passed down as a const pointer. Strings point into the structure.
 */
#ifndef ANYNET_CONFIG_H
#define ANYNET_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ANYNET_AUTO       (-1)
#define ANYNET_LIST_BYTES 4096 /* of a list of NICs */

enum anynet_transport_choice { ANYNET_CHOOSE_AUTO, ANYNET_CHOOSE_IB, ANYNET_CHOOSE_TCP };
enum anynet_switch { ANYNET_SWITCH_AUTO = -1, ANYNET_SWITCH_OFF = 0, ANYNET_SWITCH_ON = 1 };

struct anynet_config {
	int transport;	     /* enum anynet_transport_choice; ANYNET_TRANSPORT */
	bool ib_disable;     /* NCCL_IB_DISABLE */
	char ib_hca[ANYNET_LIST_BYTES]; /* NCCL_IB_HCA syntax (net-api.md §5.4); "" = all */
	char ibverbs_lib[256]; /* file name tried first; "" = libibverbs.so.1 */
	int ib_gid_index;      /* RoCE: this entry and no other; ANYNET_AUTO = choose well */
	int ib_roce_version;   /* 1 or 2: the one preferred */
	int ib_addr_family;    /* AF_INET or AF_INET6: the one preferred; AF_UNSPEC: any */
	char ib_addr_range[64]; /* RoCE: GIDs in this network only: "addr/prefix"; "" = any */
	int ib_flid_gid_index; /* InfiniBand: this GID if it can be routed, else the first */
	bool ib_merge_vfs;     /* virtual functions count as ports of the card they are of */
	int ib_data_direct;    /* 1: adapters' Data Direct engines instead of plain ones; 2: besides */
	int ib_merge_nics;     /* 1: ports may be fused to one device; 2: virtual ones, too */
	bool ib_pci_order;     /* devices by PCI address; false = in the kernel's order */
	int ib_timeout;	       /* QP's ack timeout: 4.096 us * 2^this */
	int ib_retry_cnt;      /* QP's retries after that, 0 … 7 */
	int ib_sl;	       /* service level; ANYNET_AUTO = NCCL's traffic class, else 0 */
	int ib_tc;	       /* traffic class; ANYNET_AUTO = NCCL's, else 0 */
	int ib_pkey;	       /* index of the partition key */
	int ib_adaptive;       /* adaptive routing: 0, 1; ANYNET_AUTO = on InfiniBand */
	size_t ib_ar_threshold; /* larger writes are posted for adaptive routing */
	int ib_qps;            /* queue pairs of a comm */
	bool ib_split;         /* … and is a message cut to go through several of them? */
	bool ib_ece;           /* negotiate enhanced connections */
	bool ib_loopback;      /* a port has to reach itself to be offered */
	bool ib_cm;	       /* connect queue pairs by the RDMA CM if both ends want that */
	char rdmacm_lib[256];  /* file name tried first; "" = librdmacm.so.1 */
	int ib_relaxed;        /* relaxed ordering: 0 = never; else where libibverbs knows it */

	int ib_peer_memory;    /* enum anynet_switch: NICs reach GPU memory by a peer-memory module */
	char cuda_lib[256];    /* CUDA driver library; "" = libcuda.so.1 */
	int cuda_own_context;  /* enum anynet_switch: copies of GPU memory in a CUDA context of our own */
	bool tcp_cuda;	       /* TCP devices take GPU memory, which is copied through host memory */
	bool flush_disable;    /* what a NIC has written to GPU memory is not flushed */

	char socket_ifname[ANYNET_LIST_BYTES]; /* NCCL_SOCKET_IFNAME syntax (§5.3); "" = choose well */
	int socket_family;	 /* AF_UNSPEC, AF_INET or AF_INET6 */
	char socket_subnet[64];	 /* prefer interfaces in this network: "addr[/prefix]"; "" = any */
	int port_min, port_max;	 /* listening ports; 0, 0 = ephemeral */

	int io_threads;	   /* shared I/O threads of the process; ANYNET_AUTO */
	int streams_per_nic; /* TCP streams of a comm on each NIC pair; ANYNET_AUTO */
	int stripe;	   /* enum anynet_switch: one comm over all equal NICs */
	size_t eager_bytes;  /* sends up to this are copied and done at once */
	size_t replay_bytes; /* size of a send comm's replay ring */
	int keep_bytes; /* of large sends that are done before they are acknowledged; ANYNET_AUTO; 0 = none are */
	size_t chunk_bytes;  /* largest chunk when a comm has several streams */
	int zerocopy;	     /* enum anynet_switch: MSG_ZEROCOPY */
	int sndbuf_bytes;    /* SO_SNDBUF; ANYNET_AUTO = the kernel's autotuning */
	int rcvbuf_bytes;    /* SO_RCVBUF; ANYNET_AUTO */
	char congestion[16]; /* TCP_CONGESTION; "" = the kernel's */
	int user_timeout_ms; /* keepalive's bound: silent loss of the peer's host */
	int recovery_timeout_ms; /* how long a comm waits without a stream; 0 = fails at once */
	int stall_warn_ms;   /* requests without progress are warned about; 0 = never */
	bool checksum;	     /* CRC32C behind each chunk */

	int connect_timeout_ms;	  /* one deadline for the whole of a connect or accept */
	int handshake_timeout_ms; /* time for an accepted connection to send its hello */
	char allow[512];	  /* "addr[/prefix],…" that may connect to us; "" = everybody, "none" */
	char secret_file[256];	  /* holds the secret that every peer has to know; "" = none */
	int max_recvs;		  /* grouped receives offered to NCCL, 1 … 8 */
	bool profile;		  /* hand network events to NCCL's profiler (v10+) */
	char stats[256];	  /* directory of the stats page, or "auto"; "" or "off" = none */
	char dump_dir[256];	  /* where failed comms write what happened to them; "" = nowhere */

	/* No settings: the launcher's names for the job and this process; "" = none found. */
	char job[64], rank[16];

	/* For tests: the number of each comm's first message, so that they see it wrap. */
	uint32_t first_number;
	/* Test only: added to ANYNET_WIRE_OLDEST and ANYNET_WIRE_VERSION. */
	uint16_t wire_oldest_later, wire_newest_later;
};

/* Where a value came from, for `anynet config`. */
enum anynet_config_source { ANYNET_FROM_DEFAULT, ANYNET_FROM_ENV, ANYNET_FROM_ALIAS };

/*
 * One row. `initial` is written as a user would type it and goes through `parse` like any other
 * value, so that defaults are tested. `parse` writes the field and returns 0, or leaves it alone
 * and returns -EINVAL.
 */
struct anynet_config_row {
	const char *name;    /* "ANYNET_PORT_RANGE" */
	const char *alias;   /* NCCL's variable, honoured when ours is unset; NULL = none */
	const char *initial; /* default as text */
	const char *refused; /* in place of a value that is not accepted; NULL = initial */
	const char *accepts; /* what is accepted, in words, for error messages and tables */
	const char *doc;     /* one sentence */
	int (*parse)(const struct anynet_config_row *row, const char *text,
		     struct anynet_config *cfg);
	size_t offset; /* of the field in struct anynet_config */
	long min, max; /* for numbers */
};

#define ANYNET_CONFIG_ROWS_MAX 64

extern const struct anynet_config_row anynet_config_rows[];
extern const size_t anynet_config_row_count;

/*
 * Fill *cfg from the environment. Never fails: a bad value is warned about (quoting value and
 * accepted form) and its default kept, or for a setting that keeps others out what lets nobody in;
 * an unknown ANYNET_* name or a nearly right NCCL_* one is warned about. `sources`, if not NULL, has
 * anynet_config_row_count entries and is filled too.
 */
void anynet_config_load(struct anynet_config *cfg, enum anynet_config_source *sources);

/* Parse one value as anynet_config_load does: without the blanks around it. 0, or negative, and the
 * field is left alone. */
int anynet_config_parse(const struct anynet_config_row *row, const char *value,
			struct anynet_config *cfg);

/* The value of one row as text, as a user would type it. Returns buf. */
const char *anynet_config_format(const struct anynet_config_row *row,
				 const struct anynet_config *cfg, char *buf, size_t bytes);

/* The settings table as Markdown, for docs/settings.md. */
void anynet_config_print_markdown(FILE *out);

#endif
