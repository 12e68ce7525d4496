/* SPDX-License-Identifier: Apache-2.0 */
/* TCP, the calls of programs; see tcp.h. */
#include "sim/tcp.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RING_MIN_BYTES 4096
#define HELLO_BYTES    2000 /* an upper bound */

static struct tcp_queue listening = TAILQ_HEAD_INITIALIZER(listening);
struct tcp_queue tcp_open = TAILQ_HEAD_INITIALIZER(tcp_open);
uint32_t tcp_sndbuf = 2560u << 10, tcp_rcvbuf = 3072u << 10; /* as the kernel tunes them on a fast network */

void tcp_unref(struct tcp_socket *tcp)
{
	if (--tcp->refs)
		return;
	free(tcp->ring);
	free(tcp);
}

static void release(struct sim_file *file)
{
	tcp_close((struct tcp_socket *)file);
}

static ssize_t file_read(struct sim_file *file, void *data, size_t bytes)
{
	return tcp_read((struct tcp_socket *)file, data, bytes);
}

static ssize_t file_write(struct sim_file *file, const void *data, size_t bytes)
{
	return tcp_write((struct tcp_socket *)file, data, bytes);
}

static void room_fired(struct sim_timer *timer)
{
	struct tcp_socket *tcp = (void *)((char *)timer - offsetof(struct tcp_socket, room_timer));

	if (!tcp->closed)
		file_notify(&tcp->file, EPOLLOUT | EPOLLWRNORM);
}

void tcp_hold_back(struct tcp_socket *tcp, uint64_t ns)
{
	if (tcp->state == TCP_OPEN)
		timer_set(&tcp->room_timer, sim_now + ns);
}

struct tcp_socket *tcp_new(void)
{
	static const struct sim_file_ops ops = { tcp_poll, file_read, file_write, release };
	struct tcp_socket *tcp = calloc(1, sizeof(*tcp));

	if (!tcp)
		abort();
	file_init(&tcp->file, FILE_SOCKET, &ops);
	tcp->refs = 1;
	tcp->sndbuf = tcp_sndbuf;
	tcp->rcvbuf = tcp_rcvbuf;
	tcp->segment = 1448;
	tcp->keep_idle_s = 7200;
	tcp->keep_interval_s = 75;
	tcp->keep_count = 9;
	tcp->min_rtt_ns = SIM_NEVER;
	tcp->timer.fire = tcp_timer_fired;
	tcp->keep_timer.fire = tcp_keep_fired;
	tcp->ack_timer.fire = tcp_ack_fired;
	tcp->room_timer.fire = room_fired;
	TAILQ_INIT(&tcp->accepted);
	return tcp;
}

void tcp_packet_gone(struct packet *packet)
{
	tcp_unref(packet->from);
	if (packet->to)
		tcp_unref(packet->to);
}

/* --- lifetime --- */

static void forget_peer(struct tcp_socket *tcp)
{
	struct tcp_socket *peer = tcp->peer;

	if (!peer || !tcp->closed || tcp->state != TCP_DEAD)
		return;
	tcp->peer = NULL;
	tcp_unref(peer);
}

/* The kernel has finished with the socket; the program may still hold it, and read the data received before. */
void tcp_die(struct tcp_socket *tcp, int error)
{
	struct tcp_socket *listener = tcp->listener;

	if (tcp->state == TCP_DEAD)
		return;
	if (tcp->state == TCP_LISTENS)
		TAILQ_REMOVE(&listening, tcp, link);
	else if (tcp->state == TCP_OPEN && !tcp->waits)
		TAILQ_REMOVE(&tcp_open, tcp, link);
	tcp->state = TCP_DEAD;
	tcp->error = error;
	tcp->shut_read = true;
	timer_cancel(&tcp->timer);
	timer_cancel(&tcp->keep_timer);
	timer_cancel(&tcp->ack_timer);
	timer_cancel(&tcp->room_timer);
	if (listener) { /* a child that never opened has no descriptor */
		tcp->listener = NULL;
		tcp_unref(listener);
		file_release(&tcp->file);
		return;
	}
	if (!tcp->closed)
		file_notify(&tcp->file, EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLRDHUP | (error ? EPOLLERR : 0u));
	forget_peer(tcp);
	if (tcp->closed)
		tcp_unref(tcp);
}

void tcp_set_peer(struct tcp_socket *tcp, struct tcp_socket *peer)
{
	if (tcp->peer)
		tcp_unref(tcp->peer);
	tcp->peer = peer;
	peer->refs++;
}

struct tcp_socket *tcp_listener(uint32_t address, uint16_t port)
{
	struct tcp_socket *tcp;

	TAILQ_FOREACH(tcp, &listening, link)
		if (tcp->address == address && tcp->port == port)
			return tcp;
	return NULL;
}

bool tcp_port_in_use(uint32_t address, uint16_t port)
{
	return tcp_listener(address, port) != NULL;
}

int tcp_listen(struct tcp_socket *tcp)
{
	if (tcp->state != TCP_NEW)
		return -EINVAL;
	if (tcp_port_in_use(tcp->address, tcp->port))
		return -EADDRINUSE;
	tcp->state = TCP_LISTENS;
	TAILQ_INSERT_TAIL(&listening, tcp, link);
	return 0;
}

int tcp_connect(struct tcp_socket *tcp)
{
	if (tcp->state != TCP_NEW)
		return tcp->state == TCP_SYN_OUT ? -EALREADY : -EISCONN;
	tcp->state = TCP_SYN_OUT;
	tcp->dialled_ns = sim_now;
	net_send(tcp_packet(tcp, PACKET_SYN));
	timer_set(&tcp->timer, sim_now + SIM_S);
	return -EINPROGRESS;
}

struct tcp_socket *tcp_take_accepted(struct tcp_socket *listener)
{
	struct tcp_socket *tcp = TAILQ_FIRST(&listener->accepted);

	if (!tcp)
		return NULL;
	TAILQ_REMOVE(&listener->accepted, tcp, link);
	tcp->waits = false;
	if (tcp->state == TCP_OPEN)
		TAILQ_INSERT_TAIL(&tcp_open, tcp, link);
	return tcp;
}

void tcp_opened(struct tcp_socket *tcp)
{
	if (!tcp->retransmits)
		tcp->srtt_ns = tcp->min_rtt_ns = sim_now - tcp->dialled_ns;
	tcp->state = TCP_OPEN;
	tcp->retransmits = 0;
	tcp->heard_ns = tcp->acked_ns = sim_now;
	timer_cancel(&tcp->timer);
	tcp_set_keepalive(tcp);
}

uint64_t tcp_unread(const struct tcp_socket *tcp)
{
	uint64_t end = tcp->peer_fin && tcp->rcv_nxt > tcp->fin_at ? tcp->fin_at : tcp->rcv_nxt;

	return end - tcp->read_at;
}

static void close_listener(struct tcp_socket *tcp)
{
	struct tcp_socket *child;

	while ((child = tcp_take_accepted(tcp))) {
		child->linger_now = true;
		file_release(&child->file);
	}
	tcp_die(tcp, 0);
}

/* The last descriptor is closed. Written data is still delivered, unless the program has left data unread: the kernel
 * keeps the socket until then. */
void tcp_close(struct tcp_socket *tcp)
{
	tcp->closed = true;
	if (tcp->state == TCP_DEAD) {
		forget_peer(tcp);
		tcp_unref(tcp);
	} else if (tcp->state == TCP_LISTENS) {
		close_listener(tcp);
	} else if (tcp->state == TCP_OPEN && (tcp_unread(tcp) || tcp->linger_now)) {
		tcp_send_reset(tcp, tcp->peer);
		tcp_die(tcp, 0);
	} else if (tcp->state == TCP_OPEN) {
		tcp->fin = tcp->shut_read = true;
		timer_cancel(&tcp->keep_timer);
		tcp_output(tcp);
		if (tcp->una > tcp->end && tcp->peer_fin)
			tcp_die(tcp, 0);
	} else {
		tcp_die(tcp, 0);
	}
}

void tcp_inject_reset(struct tcp_socket *tcp)
{
	if (tcp->state == TCP_OPEN)
		tcp_die(tcp, tcp->peer_fin ? EPIPE : ECONNRESET);
}

void tcp_vanish(struct tcp_socket *tcp)
{
	tcp_die(tcp, 0);
}

int tcp_shutdown(struct tcp_socket *tcp, bool read, bool write)
{
	if (tcp->state == TCP_SYN_OUT || (tcp->state == TCP_LISTENS && read)) {
		tcp_die(tcp, 0);
		return 0;
	}
	if (tcp->state != TCP_OPEN)
		return -ENOTCONN;
	tcp->shut_read |= read;
	tcp->fin |= write;
	tcp_output(tcp);
	file_notify(&tcp->file, tcp_poll(&tcp->file));
	return 0;
}

/* --- data --- */

uint32_t tcp_poll(struct sim_file *file)
{
	struct tcp_socket *tcp = (struct tcp_socket *)file;
	bool dead = tcp->state == TCP_DEAD, in_over = tcp->peer_fin || tcp->shut_read || dead;
	uint32_t events = tcp->error ? EPOLLERR : 0u;

	if (tcp->state == TCP_LISTENS)
		return TAILQ_EMPTY(&tcp->accepted) ? 0 : EPOLLIN | EPOLLRDNORM;
	if (tcp->state == TCP_NEW)
		return EPOLLOUT | EPOLLHUP;
	if (tcp->state == TCP_SYN_OUT || tcp->state == TCP_SYN_IN)
		return events;
	if (dead || (in_over && tcp->fin))
		events |= EPOLLHUP;
	if (in_over)
		events |= EPOLLIN | EPOLLRDNORM | EPOLLRDHUP;
	if (tcp_unread(tcp))
		events |= EPOLLIN | EPOLLRDNORM;
	if (dead || tcp->fin || (!tcp->room_timer.slot && tcp->end - tcp->una <= tcp->sndbuf * 2 / 3))
		events |= EPOLLOUT | EPOLLWRNORM;
	else
		tcp->no_space = true;
	return events;
}

uint64_t tcp_room(const struct tcp_socket *tcp)
{
	uint64_t queued = tcp->end - (tcp->una < tcp->end ? tcp->una : tcp->end);

	return queued < tcp->sndbuf && !tcp->room_timer.slot ? tcp->sndbuf - queued : 0;
}

/* The first byte that the peer has not read yet, or that its kernel has not acknowledged. */
static uint64_t oldest(const struct tcp_socket *tcp)
{
	uint64_t read_at = tcp->peer && !tcp->peer->closed ? tcp->peer->read_at : tcp->una;

	return read_at < tcp->una ? read_at : tcp->una;
}

static void copy_ring(uint8_t *ring, uint64_t ring_bytes, uint64_t at, uint8_t *out, const uint8_t *in, size_t bytes)
{
	while (bytes) {
		size_t place = (size_t)(at & (ring_bytes - 1)), part = (size_t)ring_bytes - place;

		if (part > bytes)
			part = bytes;
		if (in)
			memcpy(ring + place, in, part);
		else
			memcpy(out, ring + place, part);
		in = in ? in + part : NULL;
		out = out ? out + part : NULL;
		at += part;
		bytes -= part;
	}
}

static void grow(struct tcp_socket *tcp, uint64_t need)
{
	uint64_t bytes = tcp->ring_bytes ? tcp->ring_bytes : RING_MIN_BYTES, from = oldest(tcp);
	uint8_t *ring;

	while (bytes < need)
		bytes *= 2;
	if (bytes == tcp->ring_bytes)
		return;
	ring = malloc(bytes);
	if (!ring)
		abort();
	for (uint64_t at = from; at < tcp->end;) {
		uint64_t place = at & (tcp->ring_bytes - 1), part = tcp->ring_bytes - place;

		if (part > tcp->end - at)
			part = tcp->end - at;
		copy_ring(ring, bytes, at, NULL, tcp->ring + place, part);
		at += part;
	}
	free(tcp->ring);
	tcp->ring = ring;
	tcp->ring_bytes = bytes;
}

static int take_error(struct tcp_socket *tcp)
{
	int error = tcp->error;

	tcp->error = 0;
	return -error;
}

ssize_t tcp_write(struct tcp_socket *tcp, const void *data, size_t bytes)
{
	uint64_t room = tcp_room(tcp);

	if (tcp->state == TCP_SYN_OUT)
		return -EAGAIN;
	if (tcp->error)
		return take_error(tcp);
	if (tcp->state != TCP_OPEN || tcp->fin)
		return -EPIPE;
	if (bytes > room) {
		tcp->no_space = true;
		bytes = room;
	}
	if (!bytes)
		return -EAGAIN;
	grow(tcp, tcp->end + bytes - oldest(tcp));
	copy_ring(tcp->ring, tcp->ring_bytes, tcp->end, NULL, data, bytes);
	tcp->end += bytes;
	tcp_output(tcp);
	return (ssize_t)bytes;
}

/* Sends a window update when the window is twice as large as the one that the peer knows. */
static void tell_window(struct tcp_socket *tcp)
{
	uint64_t known = tcp->told_edge > tcp->rcv_nxt ? tcp->told_edge - tcp->rcv_nxt : 0;
	uint64_t window = tcp->read_at + tcp->rcvbuf - tcp->rcv_nxt;

	if (tcp->state == TCP_OPEN && 2 * known <= tcp->rcvbuf && window >= 2 * known && window)
		tcp_send_ack(tcp);
}

/* Only after the hellos, which have no checksum. */
static void flip_a_bit(const struct tcp_socket *tcp, uint8_t *data, size_t bytes)
{
	const struct sim_host *host = net_host_of(tcp->address);

	if (tcp->read_at >= HELLO_BYTES && random_chance(&net_random, host->nic[net_nic_of(host, tcp->address)].flips))
		data[random_below(&net_random, bytes)] ^= (uint8_t)(1u << random_below(&net_random, 8));
}

ssize_t tcp_read(struct tcp_socket *tcp, void *data, size_t bytes)
{
	uint64_t unread;

	if (tcp->state == TCP_NEW || tcp->state == TCP_LISTENS)
		return -ENOTCONN;
	if (tcp->state == TCP_SYN_OUT)
		return -EAGAIN;
	unread = tcp->peer ? tcp_unread(tcp) : 0;
	if (unread) {
		if (bytes > unread)
			bytes = unread;
		copy_ring(tcp->peer->ring, tcp->peer->ring_bytes, tcp->read_at, data, NULL, bytes);
		flip_a_bit(tcp, data, bytes);
		tcp->read_at += bytes;
		tell_window(tcp);
		return (ssize_t)bytes;
	}
	if (tcp->peer_fin)
		return 0;
	if (tcp->error)
		return take_error(tcp);
	return tcp->shut_read ? 0 : -EAGAIN;
}

ssize_t tcp_peek(struct tcp_socket *tcp, void *data, size_t bytes)
{
	uint64_t unread = tcp->state != TCP_SYN_OUT && tcp->peer ? tcp_unread(tcp) : 0;

	if (!unread)
		return tcp_read(tcp, data, bytes);
	if (bytes > unread)
		bytes = unread;
	copy_ring(tcp->peer->ring, tcp->peer->ring_bytes, tcp->read_at, data, NULL, bytes);
	return (ssize_t)bytes;
}

int tcp_unsent(const struct tcp_socket *tcp)
{
	return tcp->state >= TCP_OPEN ? (int)(tcp->end + tcp->fin - tcp->una) : 0;
}
