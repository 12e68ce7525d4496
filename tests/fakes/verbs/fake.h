/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of the fake libibverbs. One lock guards all of it, but for reading from sockets, which
 * is the engine thread's alone.
 *
 *   describe.c  the description, and what can be ordered at run time
 *   faults.c    faults by number of operation or call
 *   device.c    list, open, query         event.c   async events
 *   memory.c    PDs, MRs, copies          cq.c      completion queues and channels
 *   qp.c        create, modify, destroy   post.c    work requests
 *   request.c   a work request as it leaves
 *   requester.c sends what is posted      responder.c  takes what arrives
 *   wire.c      between processes         tell.c    orders for another process
 *   engine.c    lock, thread, timers      control.c fake_verbs.h
 *   rdmacm.c    a connection manager      gpu.c     GPU memory
 */
#ifndef TESTS_VERBS_FAKE_H
#define TESTS_VERBS_FAKE_H

#include "fake_verbs.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define DEVICES_MAX FAKE_VERBS_DEVICES
#define PORTS_MAX   4
#define GID_TABLE   16
#define SGE_MAX     16
#define WORD_BYTES  8 /* largest aligned store of an adapter */
#define NAME_BYTES  32
#define PSN_MASK    0xffffffu
#define RETRIES_MAX 7

/* A QP number identifies the process by its slot on the wire, and has a number within each device. */
#define SLOT_SHIFT 14
#define SLOTS_MAX  (1 << (24 - SLOT_SHIFT))
#define FIRST_QPN  17

#define NS_PER_MS 1000000ull

struct fake_gid {
	union ibv_gid gid; /* all zero = not set */
	uint32_t type;     /* enum ibv_gid_type */
	uint32_t ifindex;
};

struct fake_port {
	int query_error, layer, state, lid, mtu, speed, width, rate;
	struct fake_gid gids[GID_TABLE];
};

struct fake_device {
	struct ibv_device device; /* first */
	int open_error, query_error;
	int max_qp, max_wr, max_sge, max_cqe, max_inline, max_rd_atomic;
	int image_guid; /* -1: the node's */
	bool dmabuf, ece, clamps, ignores_inline, endless;
	char data_direct[128]; /* the directory of its engine below /sys; "" = none */
	bool dead;             /* after DEVICE_FATAL */
	int port_count, qp_count;
	struct fake_port ports[PORTS_MAX];
	uint32_t next_qpn;
};

/* A descriptor that is readable while there are events to fetch. */
struct notice {
	int fd;
	bool raised;
};

struct fake_event {
	STAILQ_ENTRY(fake_event) next;
	struct ibv_async_event event;
};

struct fake_context {
	struct ibv_context context; /* first */
	LIST_ENTRY(fake_context) next;
	struct notice notice; /* async_fd */
	STAILQ_HEAD(, fake_event) events;
	int users;
};

struct fake_pd {
	struct ibv_pd pd; /* first */
	int users;
};

enum memory_kind {
	MEMORY_HOST,
	MEMORY_MAPPED, /* a dma-buf that is a file, mapped by the fake */
	MEMORY_DMABUF, /* a dma-buf of CUDA */
	MEMORY_PEER,   /* GPU memory, by its address */
};

struct fake_mr {
	struct ibv_mr mr; /* first */
	LIST_ENTRY(fake_mr) next;
	uint64_t iova;
	unsigned access;
	char *memory; /* at iova */
	enum memory_kind kind;
	const void *mapped; /* MEMORY_MAPPED: from here … */
	size_t mapped_bytes;
	bool direct; /* by a Data Direct engine */
};

struct fake_channel {
	struct ibv_comp_channel channel; /* first */
	struct notice notice;
	STAILQ_HEAD(, fake_cq) ready;
	int users;
};

struct fake_qp;

struct fake_cqe {
	struct ibv_wc wc;
	struct fake_qp *qp;
	uint32_t send_slots, recv_slots; /* freed once it has been polled */
	bool solicited;
};

struct fake_cq {
	struct ibv_cq cq; /* first */
	struct fake_cqe *ring;
	uint32_t head, count; /* count is also read without the lock */
	bool armed, solicited_only, overrun;
	STAILQ_ENTRY(fake_cq) ready; /* in its channel … */
	uint32_t notified;           /* … this often, not fetched yet */
	int users;
	uint32_t comp_events, async_events; /* fetched */
};

struct span {
	char *at;
	size_t bytes;
};

enum wqe_state {
	WQE_QUEUED,
	WQE_PENDING, /* a reply will come */
	WQE_LOST,    /* no reply will come */
	WQE_DONE,
};

struct fake_wqe {
	uint64_t id, remote_addr, length;
	enum ibv_wr_opcode opcode;
	unsigned flags;
	uint32_t imm, rkey, psn, psn_count;
	int sge_count;
	struct ibv_sge sges[SGE_MAX];
	char *inlined; /* its place in the QP's room for inline data */
	enum wqe_state state;
	/* faults that apply to it */
	bool begun, lost, cut, garbled, torn, mute;
	bool overtaken; /* the next one is written first */
	int drops;
	uint64_t answer_ns; /* not before; 0 = at once */
	enum ibv_wc_status status;
};

struct fake_rqe {
	uint64_t id;
	int sge_count;
	struct ibv_sge sges[SGE_MAX];
};

#define NEVER UINT64_MAX

/* The completion of a receive that is reported late. */
struct held_cqe {
	struct fake_cqe cqe;
	uint64_t due_ns; /* NEVER: when the QP goes to ERR */
};

enum qp_wait {
	WAIT_NOTHING,
	WAIT_RETRY, /* the oldest one is lost */
	WAIT_RNR,
	WAIT_TURN, /* held back: by a fault, or for the engine thread */
};

struct fake_qp {
	struct ibv_qp qp; /* first */
	LIST_ENTRY(fake_qp) next;
	struct fake_device *device;
	enum ibv_qp_state state; /* qp.state is the one last requested by the application */
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_ece ece;
	uint32_t async_events; /* fetched */

	/* Send queue: [head, next) has been sent, [next, tail) has not. Positions never wrap to 0. */
	struct fake_wqe *sq;
	char *inline_room;
	uint32_t sq_head, sq_next, sq_tail;
	uint32_t sq_slots;   /* in use until a completion has been polled */
	uint32_t unreported; /* done without completion */
	uint32_t psn;        /* of the next one */
	uint32_t attempt;    /* counts go-backs; replies carry it */
	unsigned retries, rnr_retries;
	enum qp_wait wait;
	uint64_t wake_ns;
	bool muted; /* replies to it vanish */

	struct fake_rqe *rq;
	uint32_t rq_head, rq_tail, rq_slots;
	uint32_t expected_psn, received; /* packets; received stays at PSN_MASK / 2 */
	uint32_t ahead; /* 1 + PSN of the WRITE that came before its turn; 0 = none */
	bool heard;
	bool deaf;             /* nothing more arrives at it */
	struct held_cqe *held; /* in their order: [head, tail) */
	uint32_t held_head, held_tail;
};

/* Where packets come from and go to. */
struct address {
	union ibv_gid gid;
	uint32_t gid_type, lid;
	uint32_t
		subnet; /* InfiniBand: the sender's, in which the LID leads to a port, or to a router */
	bool global;
};

struct request {
	enum ibv_wr_opcode opcode;
	struct address from, to;
	uint32_t from_device; /* contents of the reply, like from_qpn */
	uint32_t from_qpn, to_qpn, psn, psn_count, mtu, imm, rkey, attempt;
	uint64_t remote_addr, length;
	bool solicited, cut, garbled, mute;
	bool torn;   /* its end only, the rest comes later */
	bool ahead; /* written before its turn */
};

enum outcome {
	OUT_LOST,
	OUT_PENDING,
	OUT_ACK,
	OUT_RNR,
	OUT_NAK,
};

struct reply {
	enum outcome outcome;
	enum ibv_wc_status status; /* of a NAK */
	uint32_t psn, to_device, to_qpn, attempt, rnr_timer;
	const char *data; /* of a READ */
	uint64_t length;
};

struct fake {
	struct fake_device devices[DEVICES_MAX];
	int device_count, list_error;
	bool described;
	LIST_HEAD(, fake_context) contexts;
	LIST_HEAD(, fake_qp) qps;
	LIST_HEAD(, fake_mr) mrs;
	uint64_t memlock;            /* bytes */
	unsigned hurry;              /* time-outs are this many times shorter */
	bool by_thread;              /* the engine thread sends, not the poster */
	bool peer_memory, unflushed, lossy, unreadable; /* describe.c */
	char wire[80];               /* directory; "" = this process is alone */
	uint32_t slot, next_key;
	struct fake_verbs_counts counts; /* except these two, which take no lock: */
	uint64_t polls, empty_polls;
};

extern struct fake fake;

/* engine.c: the lock also detects forks. */
void fake_lock(void);
void fake_unlock(void);
void fake_wait_acks(void); /* until fake_acked; the lock is free meanwhile */
void fake_acked(void);
int engine_start(void); /* a context is open; 0 or errno */
void engine_stop(void); /* the last one is closed; with the lock, which is free meanwhile */
void engine_wake(void);
int engine_watch(int fd, unsigned events, void *link);
uint64_t now_ns(void);

/* describe.c */
int describe(void); /* reads the devices from the environment, unless they are in use */
int obey(const char *text);
struct fake_port *port_at(const char *place, struct fake_device **device, int *number);
int gid_parse(const char *text, union ibv_gid *gid);
void port_set_state(struct fake_device *device, int number, int state);
void device_die(struct fake_device *device);

/* faults.c */
int fault_add(char *words);
int vanish_set(char *words);
void faults_forget(void);
int fault_call(const char *function, const struct ibv_device *device); /* errno or 0 */
int call_begin(const char *function,
	       const struct ibv_device *device); /* the same, and takes the lock */
void fault_sleep(void); /* the delay of fault_call; without the lock */
void fault_on_send(struct fake_qp *qp, struct fake_wqe *wqe, uint64_t *hold_ns);
enum ibv_wc_status fault_on_recv(struct fake_qp *qp, uint64_t length);
uint64_t fault_hold_ns(struct fake_qp *qp, uint64_t length); /* of a receive's completion */
bool vanishes(const struct fake_device *device, int port, const struct address *to);

/* device.c, event.c */
bool gid_is_set(const union ibv_gid *gid);
struct fake_device *device_of(const struct ibv_context *context);
struct fake_context *context_of(struct ibv_context *context);
void notice_set(struct notice *notice, bool raised);
int notice_await(const struct notice *notice); /* 0 with the lock, or -1 without it, and errno */
void event_raise(struct ibv_context *context, struct ibv_async_event event);
void event_port(const struct fake_device *device, enum ibv_event_type type, int port);
void event_qp(struct fake_qp *qp, enum ibv_event_type type);
void events_purge(struct ibv_context *context, const void *object);

/* memory.c */
struct fake_mr *mr_find(uint32_t key, const struct ibv_pd *pd);
char *mr_range(const struct fake_mr *mr, uint64_t addr, uint64_t bytes); /* NULL = outside */
bool spans_resolve(const struct ibv_sge *sges, int count, const struct ibv_pd *pd, unsigned access,
		   struct span *spans);
uint64_t spans_bytes(const struct span *spans, int count);
void dma_copy(const struct span *to, const struct span *from, uint64_t bytes);
void dma_copy_end(char *to, const struct span *from, uint64_t bytes); /* its last reference */
void dma_store(char *to, const char *from, size_t bytes);

/* gpu.c; with the lock */
int gpu_set(char *words);
int gpu_pin(void *addr, size_t bytes, char **view); /* view = NULL: not a GPU's; 0 or errno */
char *gpu_pin_dmabuf(int fd, uint64_t offset, size_t bytes); /* NULL: not of CUDA */
void gpu_unpin(const char *view);
bool gpu_is_freed(const void *addr);                      /* that has been pinned */
bool gpu_write(char *to, const char *from, size_t bytes); /* true: it becomes visible later, or never */
bool gpu_refuses_read(const char *from);
void gpu_read(const struct span *spans, int count);       /* an adapter will write */
void gpu_show(void);                                      /* what it has written */

/* cq.c */
int cq_poll(struct ibv_cq *cq, int count, struct ibv_wc *wcs);
int cq_notify(struct ibv_cq *cq, int solicited_only);
void cq_push(struct ibv_cq *cq, const struct fake_cqe *cqe);
void cq_purge(struct ibv_cq *cq, const struct fake_qp *qp);

/* qp.c */
struct fake_qp *qp_of(struct ibv_qp *qp);
void qp_error(struct fake_qp *qp); /* to ERR, and flush */
/* A reply has come from another process: give it to the queue pair that waits for it. It is lost if the port is down. */
void qp_reply(struct reply *reply);

struct address qp_source(const struct fake_qp *qp);
struct address qp_destination(const struct fake_qp *qp);
bool port_has(const struct fake_port *port, const struct address *address);

/* post.c */
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* request.c */
/* Its memory: the number of spans, -1 = some is not registered. */
int wqe_spans(const struct fake_qp *qp, const struct fake_wqe *wqe, struct span *spans);
/* Errors of its own: scripted, its memory, or its limits. */
enum ibv_wc_status wqe_local_status(const struct fake_qp *qp, const struct fake_wqe *wqe);
struct request request_of(const struct fake_qp *qp, const struct fake_wqe *wqe);
bool request_can_leave(const struct fake_qp *qp, const struct address *to);
/* To its queue pair; if that is in another process, the answer comes later. */
void request_carry(const struct request *request, const struct span *payload, struct reply *reply);

/* requester.c */
void requester_run(struct fake_qp *qp);
void requester_reply(struct fake_qp *qp, const struct reply *reply);
void requester_cut_off(uint32_t slot); /* the process there has ended */
void requester_flush(struct fake_qp *qp);
uint64_t requester_timers(void); /* runs those that are due; returns when the next one is, NEVER = none */

/* responder.c */
void responder_serve(const struct request *request, const struct span *payload,
		     struct reply *reply);
void responder_flush(struct fake_qp *qp);
void responder_release(void);    /* completions that only wait for their time */
uint64_t responder_timers(void); /* as requester_timers */

/* wire.c */
int wire_open(void);    /* takes a slot; 0 or errno */
void wire_close(void);  /* by the engine thread, or when there is none */
void wire_forget(void); /* after a fork */
bool wire_send(uint32_t slot, const struct request *request, const struct span *payload);
void wire_turn(void *link, unsigned events); /* from the engine thread, without the lock */

/* Messages between processes. */
enum message_kind {
	MESSAGE_REQUEST,
	MESSAGE_REPLY,
	MESSAGE_COMMAND, /* a script, to be obeyed … */
	MESSAGE_ANSWER,  /* … and what has come of it */
};

struct message {
	enum message_kind kind;
	int ret;
	uint64_t bytes; /* that follow */
	union {
		struct request request;
		struct reply reply;
		struct fake_verbs_counts counts;
	};
};

/* control.c */
struct fake_verbs_counts counts_now(void);

#endif
