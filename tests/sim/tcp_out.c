/* SPDX-License-Identifier: Apache-2.0 */
/* TCP, outgoing: segments, retransmission, probes, timers; see tcp.h. */
#include "sim/tcp.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define RTO_MIN_NS      (200 * SIM_MS)
#define RTO_MAX_NS      (120 * SIM_S)
#define SYN_RTO_NS      SIM_S
#define SYN_RETRIES     6  /* net.ipv4.tcp_syn_retries */
#define SYNACK_RETRIES  5  /* net.ipv4.tcp_synack_retries */
#define RETRIES         15 /* net.ipv4.tcp_retries2 */
#define ORPHAN_RETRIES  8
#define FIN_TIMEOUT_NS  (60 * SIM_S)
#define SEGMENT_BYTES   65536
#define IN_FLIGHT_BYTES (4u << 20)
#define REPAIR_BYTES    (256u << 10) /* maximum of one retransmission */

struct packet *tcp_packet(struct tcp_socket *tcp, enum packet_kind kind)
{
	struct packet *packet = calloc(1, sizeof(*packet));

	if (!packet)
		abort();
	packet->kind = kind;
	packet->from = tcp;
	timer_cancel(&tcp->ack_timer);
	tcp->refs++;
	packet->to = tcp->peer;
	if (packet->to)
		packet->to->refs++;
	packet->source = tcp->address;
	packet->target = tcp->peer_address;
	packet->ack = tcp->rcv_nxt;
	packet->edge = tcp->read_at + tcp->rcvbuf;
	packet->gap = tcp->gap_count ? tcp->gaps[0].from : 0;
	packet->echo_ns = tcp->echo_ns;
	return packet;
}

void tcp_send_ack(struct tcp_socket *tcp)
{
	struct packet *packet = tcp_packet(tcp, PACKET_ACK);

	tcp->told_edge = packet->edge;
	net_send(packet);
}

void tcp_send_reset(struct tcp_socket *tcp, struct tcp_socket *to)
{
	struct packet *packet = tcp_packet(tcp, PACKET_RST);

	if (packet->to != to) {
		if (packet->to)
			packet->to->refs--;
		packet->to = to;
		to->refs++;
	}
	net_send(packet);
}

uint64_t tcp_rto_ns(const struct tcp_socket *tcp)
{
	uint64_t ns = (tcp->srtt_ns + RTO_MIN_NS) << (tcp->backoff > 12 ? 12 : tcp->backoff);

	return ns > RTO_MAX_NS ? RTO_MAX_NS : ns;
}

static void send_data(struct tcp_socket *tcp, uint64_t seq, uint64_t bytes)
{
	struct packet *packet = tcp_packet(tcp, PACKET_DATA);

	packet->seq = seq;
	packet->bytes = (uint32_t)bytes;
	packet->fin = tcp->fin && seq + bytes == tcp->end;
	packet->segment = packet->bytes < tcp->segment ? packet->bytes : tcp->segment;
	tcp->told_edge = packet->edge;
	if (bytes)
		tcp->sent_ns = sim_now;
	net_send(packet);
}

/* The sequence number after all data to send and the FIN. */
static uint64_t last_seq(const struct tcp_socket *tcp)
{
	return tcp->end + tcp->fin;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void repair(struct tcp_socket *tcp)
{
	uint64_t most = tcp->una + (tcp->retransmits ? SEGMENT_BYTES : REPAIR_BYTES);

	if (tcp->again < tcp->una)
		tcp->again = tcp->una;
	while (tcp->again < tcp->loss_end && tcp->again < most) {
		uint64_t bytes = least(least(tcp->loss_end, tcp->end) - least(tcp->again, tcp->end),
				       tcp->segment < SEGMENT_BYTES && tcp->retransmits ? tcp->segment : SEGMENT_BYTES);

		send_data(tcp, tcp->again, bytes);
		tcp->resent++;
		tcp->again += bytes + (tcp->fin && tcp->again + bytes == tcp->end);
	}
}

/* Like the kernel: a large segment takes at most a millisecond. */
static uint64_t segment_bytes(const struct tcp_socket *tcp)
{
	uint64_t bytes = net_burst(tcp->address, tcp->peer_address);

	return bytes > SEGMENT_BYTES ? SEGMENT_BYTES : bytes < tcp->segment ? tcp->segment : bytes;
}

static void send_new(struct tcp_socket *tcp)
{
	uint64_t most = segment_bytes(tcp);

	while (tcp->nxt < last_seq(tcp) && (tcp->nxt < tcp->edge || tcp->nxt == tcp->end) &&
	       tcp->nxt - tcp->una < IN_FLIGHT_BYTES) {
		uint64_t bytes = least(tcp->end - tcp->nxt, most);

		bytes = least(bytes, tcp->edge > tcp->nxt ? tcp->edge - tcp->nxt : 0);
		if (!bytes && tcp->nxt != tcp->end)
			return;
		send_data(tcp, tcp->nxt, bytes);
		tcp->nxt += bytes + (tcp->fin && tcp->nxt + bytes == tcp->end);
	}
}

static void set_timer(struct tcp_socket *tcp)
{
	if (tcp->nxt > tcp->una || tcp->nxt < last_seq(tcp)) {
		if (!tcp->timer.slot)
			timer_set(&tcp->timer, sim_now + tcp_rto_ns(tcp));
	} else if (tcp->closed && tcp->fin && tcp->una > tcp->end) {
		if (!tcp->timer.slot)
			timer_set(&tcp->timer, sim_now + FIN_TIMEOUT_NS);
	} else {
		timer_cancel(&tcp->timer);
	}
}

static void count_busy(struct tcp_socket *tcp)
{
	bool busy = tcp->nxt > tcp->una;

	if (busy && !tcp->busy_since_ns)
		tcp->busy_since_ns = sim_now + 1;
	if (!busy && tcp->busy_since_ns) {
		tcp->busy_ns += sim_now + 1 - tcp->busy_since_ns;
		tcp->busy_since_ns = 0;
	}
}

void tcp_output(struct tcp_socket *tcp)
{
	if (tcp->state != TCP_OPEN)
		return;
	if (tcp->loss_end)
		repair(tcp);
	send_new(tcp);
	count_busy(tcp);
	set_timer(tcp);
}

/* --- timers --- */

static void dial_again(struct tcp_socket *tcp)
{
	bool child = tcp->state == TCP_SYN_IN;

	if (++tcp->retransmits > (child ? SYNACK_RETRIES : SYN_RETRIES)) {
		tcp_die(tcp, ETIMEDOUT);
		return;
	}
	tcp->resent++;
	net_send(tcp_packet(tcp, child ? PACKET_SYNACK : PACKET_SYN));
	timer_set(&tcp->timer, sim_now + (SYN_RTO_NS << tcp->retransmits));
}

/* Linux counts TCP_USER_TIMEOUT from the first retransmission of the segment. */
static bool has_given_up(const struct tcp_socket *tcp)
{
	if (tcp->closed && tcp->retransmits > ORPHAN_RETRIES)
		return true;
	if (tcp->peer_timeout_ms)
		return tcp->retransmits && sim_now - tcp->stuck_since_ns >= tcp->peer_timeout_ms * SIM_MS;
	return tcp->retransmits >= RETRIES;
}

static void retransmit(struct tcp_socket *tcp)
{
	if (!tcp->retransmits)
		tcp->stuck_since_ns = sim_now - tcp_rto_ns(tcp);
	if (has_given_up(tcp)) {
		tcp_die(tcp, ETIMEDOUT);
		return;
	}
	tcp->retransmits++;
	tcp->backoff++;
	tcp->loss_end = tcp->nxt;
	tcp->again = tcp->una;
	tcp_output(tcp);
}

/* Zero-window probe. */
static void probe(struct tcp_socket *tcp)
{
	if (tcp->probes >= (tcp->closed ? ORPHAN_RETRIES : RETRIES)) {
		tcp_die(tcp, ETIMEDOUT);
		return;
	}
	tcp->probes++;
	tcp->backoff++;
	send_data(tcp, tcp->nxt, 0);
	tcp_output(tcp);
}

void tcp_timer_fired(struct sim_timer *timer)
{
	struct tcp_socket *tcp = (void *)((char *)timer - offsetof(struct tcp_socket, timer));

	if (tcp->state == TCP_SYN_OUT || tcp->state == TCP_SYN_IN)
		dial_again(tcp);
	else if (tcp->state != TCP_OPEN)
		return;
	else if (tcp->nxt > tcp->una)
		retransmit(tcp);
	else if (tcp->nxt < last_seq(tcp))
		probe(tcp);
	else
		tcp_die(tcp, 0);
}

void tcp_set_keepalive(struct tcp_socket *tcp)
{
	if (tcp->keepalive && tcp->state == TCP_OPEN && !tcp->closed)
		timer_set(&tcp->keep_timer, sim_now + tcp->keep_idle_s * SIM_S);
	else
		timer_cancel(&tcp->keep_timer);
}

static bool keepalive_is_over(const struct tcp_socket *tcp, uint64_t quiet_ns)
{
	if (tcp->peer_timeout_ms)
		return quiet_ns >= tcp->peer_timeout_ms * SIM_MS && tcp->keep_probes;
	return tcp->keep_probes >= tcp->keep_count;
}

void tcp_keep_fired(struct sim_timer *timer)
{
	struct tcp_socket *tcp = (void *)((char *)timer - offsetof(struct tcp_socket, keep_timer));
	uint64_t quiet_ns = sim_now - tcp->heard_ns, idle_ns = tcp->keep_idle_s * SIM_S;

	if (tcp->state != TCP_OPEN || tcp->closed)
		return;
	if (tcp->nxt > tcp->una || tcp->nxt < last_seq(tcp)) {
		timer_set(timer, sim_now + idle_ns);
	} else if (quiet_ns < idle_ns) {
		timer_set(timer, tcp->heard_ns + idle_ns);
	} else if (keepalive_is_over(tcp, quiet_ns)) {
		tcp_send_reset(tcp, tcp->peer);
		tcp_die(tcp, ETIMEDOUT);
	} else {
		struct packet *packet = tcp_packet(tcp, PACKET_DATA);

		packet->seq = tcp->una ? tcp->una - 1 : 0;
		net_send(packet);
		tcp->keep_probes++;
		timer_set(timer, sim_now + tcp->keep_interval_s * SIM_S);
	}
}

void tcp_ack_fired(struct sim_timer *timer)
{
	tcp_send_ack((void *)((char *)timer - offsetof(struct tcp_socket, ack_timer)));
}

void tcp_describe(const struct tcp_socket *tcp)
{
	printf("  %x:%u -> %x:%u%s: acknowledged %" PRIu64 " sent %" PRIu64 " written %" PRIu64 " window to %" PRIu64
	       "%s; read %" PRIu64 " of %" PRIu64 "%s%s; %u retransmissions, %u probes\n",
	       tcp->address, tcp->port, tcp->peer_address, tcp->peer_port, tcp->closed ? " (closed)" : "", tcp->una,
	       tcp->nxt, tcp->end, tcp->edge, tcp->fin ? " FIN" : "", tcp->read_at, tcp->rcv_nxt,
	       tcp->peer_fin ? " FIN" : "", tcp->no_space ? ", waits for room" : "", tcp->retransmits, tcp->probes);
}
