/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the checks: a libibverbs opened at run time, as by the plugin, and two ends with a queue pair each.
 */
#ifndef TESTS_VERBS_RIG_H
#define TESTS_VERBS_RIG_H

#include "fakes/verbs/fake_verbs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fakes/selfcheck.h"
#include "transports/device/verbs.h"
#include <support/check.h>

#define END_BYTES ((size_t)2 << 20)
#define CQ_SIZE   256
#define WR_MAX    64

/* Functions of libibverbs that the plugin does not call. */
struct verbs_besides {
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
};

/* Points in which adapters differ, all of them correctly. */
struct traits {
	const char *name;
	bool dmabuf, ece;
	bool refuses_early_sends; /* post_send before RTS */
	bool purges;              /* destroy_qp takes the QP's completions out of the CQ */
	bool told_of_peer;        /* async event on the QP whose peer made an invalid request */
	bool checks_pkey;
	bool late_flush; /* receives posted in ERR */
	/* status for unreadable local memory; for a receive that is too small, here and there */
	enum ibv_wc_status protection, short_here, short_there;
	bool fake;
};

/* Orders for the fake; NULL with a real library. */
struct control {
	int (*script)(const char *text);
	void (*reset)(void);
	void (*counts)(struct fake_verbs_counts *counts);
	int (*tell)(const char *directory, int pid, const char *text);
	int (*ask)(const char *directory, int pid, struct fake_verbs_counts *counts);
};

/* Attributes that one end sends the other. */
struct address_card {
	union ibv_gid gid;
	uint32_t qpn, lid, rkey;
	uint64_t addr;
	bool other_subnet; /* of InfiniBand */
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp; /* NULL = none */
	struct ibv_port_attr port;
	union ibv_gid gid;
	int gid_index;
	char *memory;
};

struct rig {
	const struct traits *traits;
	const char *library, *devices[2];
	const char *cuda; /* file of the fake libcuda.so.1; NULL = none */
	struct verbs verbs;
	struct verbs_besides besides;
	struct control control;
	struct end a, b; /* on the one device, and on the other */
};

extern struct rig rig;

/* How to set up a connection; a field that is 0 has the default. */
struct terms {
	unsigned timeout, retries, rnr_retries; /* rnr_retries: N + 1 */
	uint32_t inline_bytes, cqe, sends, reads;
	unsigned access;                  /* of the QPs */
	uint32_t psn_there, psn_expected; /* they differ: nothing is accepted */
};

extern const struct terms usual;

/* State of the ends at the start of a check. */
enum setting {
	CONNECTED,
	OPEN,
	CLOSED,
	GPU, /* connected, with GPU memory (check_gpu.c) */
};

struct ibv_context *device_open(const char *name);
void end_open(struct end *end, const char *device);
void end_close(struct end *end);
void ends_open(void);
void ends_close(void);

/* Needs of each step. */
extern const int init_mask, rtr_mask, rts_mask;

int qp_to_init(struct ibv_qp *qp, unsigned access);
/* Needs of all steps. */
struct ibv_qp_attr qp_attr(const struct end *end, const struct address_card *peer,
			   const struct terms *terms);
int qp_to_rtr(const struct end *end, const struct address_card *peer, const struct terms *terms);
int qp_to_err(struct ibv_qp *qp);
enum ibv_qp_state qp_state(const struct end *end);
/* A device may report the error first, and change the state a moment later. */
void qp_await(const struct end *end, enum ibv_qp_state state);

void end_new_qp(struct end *end, const struct terms *terms);  /* in RESET */
void end_make_qp(struct end *end, const struct terms *terms); /* in INIT */
void end_drop_qp(struct end *end);
struct address_card end_card(const struct end *end);
void end_connect(const struct end *end, struct address_card peer, const struct terms *terms);
void ends_connect(const struct terms *terms);
void ends_drop(void);

/* Posting. `offset` is in the end's memory. Returns the library's result. */
struct op {
	enum ibv_wr_opcode opcode;
	size_t offset;
	uint32_t bytes, rkey, imm;
	uint64_t remote;
	bool is_inline, quiet, solicited; /* quiet: no completion */
	uint32_t lkey;                    /* 0 = the right one */
};
int end_post(const struct end *end, const struct op *op);
int end_recv(const struct end *end, size_t offset, uint32_t bytes);
/* Polls this many. */
void end_posts(const struct end *end, const struct op *op, int count);
void end_recvs(const struct end *end, uint32_t bytes, int count);
struct op op_write(const struct end *to, size_t offset, size_t to_offset, uint32_t bytes);

/* Completions. The wr_id of everything posted is its opcode, 1000 for receives. */
#define RECV_ID 1000
struct ibv_wc end_wait(struct end *end, enum ibv_wc_status status);
void end_wait_opcode(struct end *end, enum ibv_wc_opcode opcode);
void end_waits(struct end *end, enum ibv_wc_opcode opcode, int count);
/* Posts it, and waits until it is done, or fails. */
void end_do(struct end *end, const struct op *op);
void end_fails(struct end *end, const struct op *op, enum ibv_wc_status status);
bool end_is_quiet(struct end *end, int ms);
bool is_readable(int fd, int ms); /* within this time */

/* Waits for the event; earlier ones of any kind are discarded. */
void end_wait_event(struct end *end, enum ibv_event_type type);
bool end_has_event(struct end *end);

void fill(char *at, size_t bytes, unsigned seed);
double seconds(void);
void order(const char *script); /* orders the fake, or fails the check */
struct fake_verbs_counts counts_now(void);
void expect_nothing_open(void);

/* check_gpu.c */
void gpu_begin(void);
void gpu_end(void);

/* The checks, by subject. */
extern const struct selfcheck queries_checks[], data_checks[], states_checks[], errors_checks[],
	streams_checks[], links_checks[], processes_checks[], faults_checks[], scripts_checks[],
	gpu_checks[];

#endif
