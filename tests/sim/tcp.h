/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP between simulated hosts, like Linux as far as a program can observe it: windows, retransmission with backoff,
 * zero-window probes, keepalive, FIN and RST and the data still read after them, TCP_USER_TIMEOUT. Segments are as
 * large as with a NIC that has segmentation offload. Congestion control is left out: the receiver's buffer limits the
 * data in flight.
 */
#ifndef TESTS_SIM_TCP_H
#define TESTS_SIM_TCP_H

#include "sim/file.h"
#include "sim/net.h"

#define TCP_GAPS 16

enum tcp_state {
	TCP_NEW,
	TCP_LISTENS,
	TCP_SYN_OUT,
	TCP_SYN_IN, /* a child of a listening socket */
	TCP_OPEN,   /* also half closed, or closed by the program but not finished */
	TCP_DEAD
};

struct tcp_range {
	uint64_t from, to;
};

struct tcp_socket {
	struct sim_file file;
	unsigned refs; /* by the file, packets, the peer */
	enum tcp_state state;
	bool closed; /* no descriptor is left */
	bool waits;  /* for accept */
	uint32_t address, peer_address;
	uint16_t port, peer_port;
	struct tcp_socket *peer;
	TAILQ_ENTRY(tcp_socket) link; /* in the list of listening or of open sockets */
	TAILQ_HEAD(tcp_queue, tcp_socket) accepted;
	struct tcp_socket *listener; /* of a child in the handshake */

	/* Options. */
	uint32_t sndbuf, rcvbuf, segment, peer_timeout_ms, keep_idle_s, keep_interval_s, keep_count;
	bool keepalive, linger_now;

	/* Outgoing. The bytes are kept until they have been acknowledged and the peer has read them. */
	uint8_t *ring;
	uint64_t ring_bytes, una, nxt, end, edge;
	uint64_t loss_end, again; /* to be retransmitted: from `again` to loss_end */
	bool fin, no_space;
	struct sim_timer timer;
	unsigned backoff, retransmits, resent, probes;
	uint64_t srtt_ns, rtt_var_ns, min_rtt_ns, stuck_since_ns, busy_since_ns, busy_ns, acked_ns, sent_ns;
	uint64_t arrives_ns; /* when its newest packet arrives at the other host */

	/* Incoming. */
	uint64_t rcv_nxt, read_at, told_edge, heard_ns;
	struct tcp_range gaps[TCP_GAPS]; /* ranges received after holes */
	unsigned gap_count;
	bool fin_known, peer_fin, shut_read;
	uint64_t fin_at, echo_ns, dialled_ns;

	int error;
	struct sim_timer keep_timer, ack_timer, room_timer;
	unsigned keep_probes;
};

extern struct tcp_queue tcp_open;
extern uint32_t tcp_sndbuf, tcp_rcvbuf; /* of a new socket */
extern unsigned tcp_ack_delays; /* per million single segments: the acknowledgement is delayed */

struct tcp_socket *tcp_new(void);
int tcp_listen(struct tcp_socket *tcp);
int tcp_connect(struct tcp_socket *tcp); /* -EINPROGRESS, or an immediate error */
struct tcp_socket *tcp_take_accepted(struct tcp_socket *listener);
bool tcp_port_in_use(uint32_t address, uint16_t port);
int tcp_shutdown(struct tcp_socket *tcp, bool read, bool write);
void tcp_close(struct tcp_socket *tcp);

/* A third party's RST arrives. */
void tcp_inject_reset(struct tcp_socket *tcp);
/* Its host has lost power. */
void tcp_vanish(struct tcp_socket *tcp);

uint32_t tcp_poll(struct sim_file *file);
uint64_t tcp_unread(const struct tcp_socket *tcp);
/* Accepts no data for this time, as if its buffer were full. */
void tcp_hold_back(struct tcp_socket *tcp, uint64_t ns);
uint64_t tcp_room(const struct tcp_socket *tcp);
ssize_t tcp_write(struct tcp_socket *tcp, const void *data, size_t bytes);
ssize_t tcp_read(struct tcp_socket *tcp, void *data, size_t bytes);
ssize_t tcp_peek(struct tcp_socket *tcp, void *data, size_t bytes); /* without removing the data */
int tcp_unsent(const struct tcp_socket *tcp); /* SIOCOUTQ */

void tcp_describe(const struct tcp_socket *tcp);
void tcp_set_keepalive(struct tcp_socket *tcp);
void tcp_packet_gone(struct packet *packet);

/* For tcp.c, tcp_in.c and tcp_out.c. A socket counts its users: file, packets and peer. */
void tcp_unref(struct tcp_socket *tcp);
void tcp_set_peer(struct tcp_socket *tcp, struct tcp_socket *peer);
void tcp_opened(struct tcp_socket *tcp);
struct tcp_socket *tcp_listener(uint32_t address, uint16_t port);

/* --- tcp_out.c --- */

struct packet *tcp_packet(struct tcp_socket *tcp, enum packet_kind kind);
void tcp_send_ack(struct tcp_socket *tcp);
void tcp_send_reset(struct tcp_socket *tcp, struct tcp_socket *to);
void tcp_output(struct tcp_socket *tcp);
void tcp_timer_fired(struct sim_timer *timer);
void tcp_keep_fired(struct sim_timer *timer);
void tcp_ack_fired(struct sim_timer *timer);
void tcp_die(struct tcp_socket *tcp, int error);
uint64_t tcp_rto_ns(const struct tcp_socket *tcp);

#endif
