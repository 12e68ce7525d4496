/* SPDX-License-Identifier: Apache-2.0 */
/* TCP, incoming: handshakes, acknowledgements, data, FIN, RST; see tcp.h. */
#include "sim/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ACK_DELAY_NS (40 * SIM_MS)

unsigned tcp_ack_delays;

static void answer_with_reset(const struct packet *packet)
{
	struct packet *reset;

	if (packet->kind == PACKET_RST)
		return;
	reset = calloc(1, sizeof(*reset));
	if (!reset)
		abort();
	reset->kind = PACKET_RST;
	reset->from = packet->to ? packet->to : packet->from;
	reset->to = packet->from;
	reset->from->refs++;
	reset->to->refs++;
	reset->source = packet->target;
	reset->target = packet->source;
	net_send(reset);
}

static void take_syn(struct packet *packet)
{
	struct tcp_socket *tcp, *child, *from = packet->from;

	if (from->peer && from->peer->state == TCP_SYN_IN) {
		net_send(tcp_packet(from->peer, PACKET_SYNACK));
		return;
	}
	tcp = tcp_listener(packet->target, from->peer_port);
	if (from->state != TCP_SYN_OUT)
		return;
	if (!tcp) {
		answer_with_reset(packet);
		return;
	}
	child = tcp_new();
	child->file.owner = tcp->file.owner;
	child->state = TCP_SYN_IN;
	child->listener = tcp;
	tcp->refs++;
	child->address = packet->target;
	child->port = tcp->port;
	child->peer_address = packet->source;
	child->peer_port = from->port;
	child->sndbuf = tcp->sndbuf;
	child->rcvbuf = tcp->rcvbuf;
	child->segment = from->segment < tcp->segment ? from->segment : tcp->segment;
	child->peer_timeout_ms = tcp->peer_timeout_ms;
	child->keepalive = tcp->keepalive;
	child->keep_idle_s = tcp->keep_idle_s;
	child->keep_interval_s = tcp->keep_interval_s;
	child->keep_count = tcp->keep_count;
	child->edge = packet->edge;
	child->dialled_ns = sim_now;
	tcp_set_peer(child, from);
	tcp_set_peer(from, child);
	net_send(tcp_packet(child, PACKET_SYNACK));
	timer_set(&child->timer, sim_now + SIM_S);
}

/* The handshake is complete at the acceptor's end, too. False: the listener is gone. */
static bool child_opened(struct tcp_socket *child)
{
	struct tcp_socket *listener = child->listener;

	if (listener->state != TCP_LISTENS) {
		tcp_send_reset(child, child->peer);
		tcp_die(child, 0);
		return false;
	}
	child->listener = NULL;
	tcp_opened(child);
	child->waits = true;
	TAILQ_INSERT_TAIL(&listener->accepted, child, link);
	file_notify(&listener->file, EPOLLIN | EPOLLRDNORM);
	tcp_unref(listener);
	return true;
}

/* As in RFC 6298; TCP_INFO reports mdev, which has no minimum. */
static void take_round_trip(struct tcp_socket *tcp, uint64_t rtt)
{
	uint64_t off = rtt > tcp->srtt_ns ? rtt - tcp->srtt_ns : tcp->srtt_ns - rtt;

	tcp->rtt_var_ns = tcp->srtt_ns ? tcp->rtt_var_ns - tcp->rtt_var_ns / 4 + off / 4 : rtt / 2;
	tcp->srtt_ns = tcp->srtt_ns ? tcp->srtt_ns - tcp->srtt_ns / 8 + rtt / 8 : rtt;
	tcp->min_rtt_ns = rtt < tcp->min_rtt_ns ? rtt : tcp->min_rtt_ns;
}

static void take_ack(struct tcp_socket *tcp, const struct packet *packet)
{
	uint64_t rtt = packet->echo_ns && sim_now > packet->echo_ns ? sim_now - packet->echo_ns : 0;

	if (packet->edge > tcp->edge)
		tcp->edge = packet->edge;
	tcp->acked_ns = sim_now;
	tcp->probes = 0;
	if (packet->ack > tcp->una) {
		tcp->una = packet->ack;
		tcp->backoff = tcp->retransmits = 0;
		if (rtt)
			take_round_trip(tcp, rtt);
		timer_cancel(&tcp->timer);
		if (tcp->una >= tcp->loss_end)
			tcp->loss_end = 0;
	} else if (packet->gap > tcp->una && tcp->nxt > tcp->una && !tcp->loss_end) {
		tcp->loss_end = packet->gap;
		tcp->again = tcp->una;
	}
	if (tcp->no_space && tcp->end - (tcp->una < tcp->end ? tcp->una : tcp->end) <= tcp->sndbuf * 2 / 3) {
		tcp->no_space = false;
		if (!tcp->closed)
			file_notify(&tcp->file, EPOLLOUT | EPOLLWRNORM);
	}
	tcp_output(tcp);
}

static void remove_gap(struct tcp_socket *tcp, unsigned i)
{
	tcp->gap_count--;
	memmove(&tcp->gaps[i], &tcp->gaps[i + 1], (tcp->gap_count - i) * sizeof(tcp->gaps[0]));
}

/* Data after a hole: kept if an entry for its range is free. */
static void keep_gap(struct tcp_socket *tcp, uint64_t from, uint64_t to)
{
	unsigned i = 0;

	while (i < tcp->gap_count && tcp->gaps[i].to < from)
		i++;
	if (i < tcp->gap_count && tcp->gaps[i].from <= to) {
		tcp->gaps[i].from = from < tcp->gaps[i].from ? from : tcp->gaps[i].from;
		tcp->gaps[i].to = to > tcp->gaps[i].to ? to : tcp->gaps[i].to;
		return;
	}
	if (tcp->gap_count == TCP_GAPS)
		return;
	memmove(&tcp->gaps[i + 1], &tcp->gaps[i], (tcp->gap_count - i) * sizeof(tcp->gaps[0]));
	tcp->gaps[i] = (struct tcp_range){ from, to };
	tcp->gap_count++;
}

static void take_bytes(struct tcp_socket *tcp, const struct packet *packet)
{
	uint64_t end = packet->seq + packet->bytes + packet->fin;

	if (packet->fin) {
		tcp->fin_known = true;
		tcp->fin_at = packet->seq + packet->bytes;
	}
	if (packet->seq > tcp->rcv_nxt) {
		keep_gap(tcp, packet->seq, end);
		return;
	}
	tcp->echo_ns = packet->sent_ns;
	if (end > tcp->rcv_nxt)
		tcp->rcv_nxt = end;
	while (tcp->gap_count && tcp->gaps[0].from <= tcp->rcv_nxt) {
		if (tcp->gaps[0].to > tcp->rcv_nxt)
			tcp->rcv_nxt = tcp->gaps[0].to;
		remove_gap(tcp, 0);
	}
}

/* The acknowledgement of a single segment may wait for another one, or for data in the other direction (Linux: up to
 * TCP_ATO_MIN). */
static void acknowledge(struct tcp_socket *tcp, const struct packet *packet)
{
	bool single = packet->bytes && packet->bytes <= tcp->segment && !packet->fin && !tcp->gap_count && !tcp->closed;

	if (single && !tcp->ack_timer.slot && random_chance(&net_random, tcp_ack_delays))
		timer_set(&tcp->ack_timer, sim_now + random_below(&net_random, ACK_DELAY_NS));
	else
		tcp_send_ack(tcp);
}

static void take_data(struct tcp_socket *tcp, const struct packet *packet)
{
	uint64_t before = tcp->rcv_nxt;

	/* New data for a socket that is shut down in both directions, or closed. */
	if (packet->bytes && tcp->shut_read && tcp->fin && packet->seq + packet->bytes > tcp->rcv_nxt) {
		answer_with_reset(packet);
		tcp_die(tcp, tcp->closed ? 0 : ECONNRESET);
		return;
	}
	take_bytes(tcp, packet);
	tcp->peer_fin = tcp->fin_known && tcp->rcv_nxt > tcp->fin_at;
	if (tcp->closed)
		tcp->read_at = tcp->peer_fin ? tcp->fin_at : tcp->rcv_nxt;
	acknowledge(tcp, packet);
	if (tcp->rcv_nxt == before || tcp->closed)
		return;
	file_notify(&tcp->file, EPOLLIN | EPOLLRDNORM |
					(tcp->peer_fin ? EPOLLRDHUP | (tcp->fin ? EPOLLHUP : 0u) : 0u));
}

static void take_segment(struct tcp_socket *tcp, const struct packet *packet)
{
	tcp->heard_ns = sim_now;
	tcp->keep_probes = 0;
	take_ack(tcp, packet);
	if (packet->kind == PACKET_DATA)
		take_data(tcp, packet);
	if (tcp->state == TCP_OPEN && tcp->closed && tcp->una > tcp->end && tcp->peer_fin)
		tcp_die(tcp, 0);
}

void tcp_deliver(struct packet *packet)
{
	struct tcp_socket *tcp = packet->to;

	if (packet->kind == PACKET_SYN) {
		take_syn(packet);
		return;
	}
	if (tcp->state == TCP_DEAD) {
		answer_with_reset(packet);
		return;
	}
	if (packet->kind == PACKET_RST) {
		tcp_die(tcp, tcp->state == TCP_SYN_OUT ? ECONNREFUSED : tcp->peer_fin ? EPIPE : ECONNRESET);
		return;
	}
	tcp->refs++;
	if (tcp->state == TCP_SYN_OUT && packet->kind == PACKET_SYNACK) {
		tcp->edge = packet->edge;
		tcp->segment = packet->from->segment < tcp->segment ? packet->from->segment : tcp->segment;
		tcp_opened(tcp);
		TAILQ_INSERT_TAIL(&tcp_open, tcp, link);
		tcp_send_ack(tcp);
		file_notify(&tcp->file, EPOLLOUT | EPOLLWRNORM);
	} else if (tcp->state == TCP_OPEN && packet->kind == PACKET_SYNACK) {
		tcp_send_ack(tcp);
	} else if (tcp->state == TCP_OPEN || (tcp->state == TCP_SYN_IN && child_opened(tcp))) {
		take_segment(tcp, packet);
	}
	tcp_unref(tcp);
}
