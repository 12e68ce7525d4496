/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the checks need: a libibverbs opened at run time, as the plugin does it, and two ends with a
 * queue pair each. A check says by cmocka's asserts what does not hold.
 */
#ifndef TESTS_VERBS_RIG_H
#define TESTS_VERBS_RIG_H

#include "fakes/verbs/fake_verbs.h"

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define END_BYTES ((size_t)4 << 20)
#define CQ_SIZE   256
#define WR_MAX    64
#define PATIENCE  60 /* seconds, for what is going to happen */

struct verbs_table {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
	int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
			    struct ibv_gid_entry *entry, uint32_t flags, size_t entry_bytes);
	ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries,
				   size_t max, uint32_t flags, size_t entry_bytes);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t bytes, int access);
	struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t bytes, uint64_t iova,
				       unsigned access);
	struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t bytes,
					uint64_t iova, int fd, int access);
	int (*dereg_mr)(struct ibv_mr *mr);
	struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);
	const char *(*event_type_str)(enum ibv_event_type type);
	int (*fork_init)(void);
};

/* Where adapters differ from one another, and each is right. */
struct traits {
	const char *name;
	bool dmabuf, ece;
	bool refuses_early_sends; /* post_send before RTS */
	bool purges;              /* destroy_qp takes the QP's completions out of the CQ */
	bool told_of_peer;        /* async event on the QP whose peer did what it may not */
	bool checks_pkey;
	bool late_flush; /* of what is posted to receive in ERR */
	/* what says that local memory may not be read; that a receive was too small, here and there */
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

struct rig {
	const struct traits *traits;
	const char *library, *devices[2];
	const char *cuda; /* file of the fake libcuda.so.1; NULL = none */
	struct verbs_table verbs;
	struct control control;
};

extern struct rig rig;

/* What one end tells the other. */
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

/* How a connection is set up; a field that is 0 has the default. */
struct terms {
	unsigned timeout, retries, rnr_retries; /* rnr_retries: N + 1 */
	uint32_t inline_bytes, cqe, sends, reads;
	unsigned access;                  /* of the QPs */
	uint32_t psn_there, psn_expected; /* differ: nothing is accepted */
};

void rig_open(const char *library, const struct traits *traits);

struct ibv_context *device_open(const char *name);
void end_open(struct end *end, const char *device);
void end_close(struct end *end);

/* For cmocka: every check has two open ends as its state, not connected yet. */
struct ends {
	struct end a, b;
};
int ends_setup(void **state);
int ends_teardown(void **state);
#define CHECK(function) cmocka_unit_test_setup_teardown(function, ends_setup, ends_teardown)

int qp_to_init(struct ibv_qp *qp, unsigned access);
int qp_to_rtr(const struct end *end, const struct address_card *peer, const struct terms *terms);
int qp_to_rts(const struct end *end, const struct terms *terms);
int qp_to_err(struct ibv_qp *qp);
enum ibv_qp_state qp_state(const struct end *end);
/* A device may report the error first, and change the state a moment later. */
void qp_await(const struct end *end, enum ibv_qp_state state);

void end_make_qp(struct end *end, const struct terms *terms); /* in INIT */
void end_drop_qp(struct end *end);
struct address_card end_card(const struct end *end);
void end_connect(struct end *end, const struct address_card *peer, const struct terms *terms);
void pair_connect(struct end *a, struct end *b, const struct terms *terms);
void pair_drop(struct end *a, struct end *b);

/* Posting. `offset` is in the end's memory. Returns what the library does. */
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
struct op op_write(const struct end *to, size_t offset, size_t to_offset, uint32_t bytes);

/* Completions. The wr_id of everything posted is its opcode, 1000 for receives. */
#define RECV_ID 1000
struct ibv_wc end_wait(struct end *end, enum ibv_wc_status status);
void end_wait_opcode(struct end *end, enum ibv_wc_opcode opcode);
bool end_is_quiet(struct end *end, int ms);

/* Waits for the event; others, of any kind, are taken off before it. */
void end_wait_event(struct end *end, enum ibv_event_type type);
bool end_has_event(struct end *end);

void fill(char *at, size_t bytes, unsigned seed);
double seconds(void);
void order(const char *script); /* the fake obeys, or the check fails */
void expect_nothing_open(void);

/* The checks, by subject. */
int check_queries(void);
int check_data(void);
int check_states(void);
int check_errors(void);
int check_streams(void);
int check_links(void);
int check_processes(void);
int check_faults(void);
int check_scripts(void);
int check_gpu(void);

#endif
