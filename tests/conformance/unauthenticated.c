/* SPDX-License-Identifier: Apache-2.0 */
/* Unauthenticated connections to the listener's port: whatever they send, the peer is accepted and its data is right
 * (net-api.md §3.4). */
#include <support/buffer.h>
#include <support/capture.h>
#include <support/flow.h>
#include <support/link.h>
#include <support/unauth.h>

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 120

/* --- kinds of connections; each stays open unless it says otherwise --- */

static void is_silent(int fd, const struct target *target, uint64_t *state)
{
	(void)fd;
	(void)target;
	(void)state;
}

static void says_half_a_hello(int fd, const struct target *target, uint64_t *state)
{
	struct anynet_wire_hello hello = unauth_hello(target);
	unauth_say(fd, &hello, 1 + random_below(state, sizeof(hello) - 1));
}

static void says_noise(int fd, const struct target *target, uint64_t *state)
{
	unsigned char noise[2000];

	(void)target;
	pattern_fill(noise, sizeof(noise), random_next(state));
	unauth_say(fd, noise, 1 + random_below(state, sizeof(noise)));
}

static void speaks_http(int fd, const struct target *target, uint64_t *state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
				      "User-Agent: health-check\r\nAccept: */*\r\n\r\n";
	(void)target;
	(void)state;
	unauth_say(fd, request, sizeof(request) - 1);
}

static void replays_the_handle(int fd, const struct target *target, uint64_t *state)
{
	(void)state;
	unauth_say(fd, &target->handle, sizeof(target->handle));
}

static void guesses_the_token(int fd, const struct target *target, uint64_t *state)
{
	struct anynet_wire_hello hello = unauth_hello(target);
	hello.token[random_below(state, sizeof(hello.token))] ^=
		(uint8_t)(1 + random_below(state, 255));
	unauth_say(fd, &hello, sizeof(hello));
}

static void names_another_endpoint(int fd, const struct target *target, uint64_t *state)
{
	struct anynet_wire_hello hello = unauth_hello(target);
	hello.endpoint += 1 + (uint32_t)random_below(state, 1000000);
	unauth_say(fd, &hello, sizeof(hello));
}

static void claims_an_absurd_length(int fd, const struct target *target, uint64_t *state)
{
	struct anynet_wire_hello hello = unauth_hello(target);
	hello.bytes = random_below(state, 2) ? 0xffffffffu : 3;
	hello.token[0] ^= 1;
	unauth_say(fd, &hello, sizeof(hello));
}

static void resets(int fd, const struct target *target, uint64_t *state)
{
	struct linger linger = { .l_onoff = 1 };

	says_noise(fd, target, state);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void hangs_up(int fd, const struct target *target, uint64_t *state)
{
	says_half_a_hello(fd, target, state);
	shutdown(fd, SHUT_RDWR);
}

static void floods(int fd, const struct target *target, uint64_t *state)
{
	static unsigned char noise[256 * 1024];

	(void)target;
	pattern_fill(noise, sizeof(noise), random_next(state));
	unauth_say(fd, noise, sizeof(noise));
}

typedef void (*behaviour)(int fd, const struct target *target, uint64_t *state);

static const behaviour kinds[] = {
	is_silent,
	says_half_a_hello,
	says_noise,
	speaks_http,
	replays_the_handle,
	guesses_the_token,
	names_another_endpoint,
	claims_an_absurd_length,
	resets,
	hangs_up,
	floods,
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The kinds that close at once; a reset needs the socket closed. */
static bool closes(behaviour kind)
{
	return kind == resets || kind == hangs_up;
}

static void let_in(const struct target *target, behaviour kind, size_t count, int *fds,
		   uint64_t *state)
{
	for (size_t i = 0; i < count; i++) {
		behaviour one = kind ? kind : kinds[i % KINDS];
		fds[i] = unauth_dial(target, 0);
		one(fds[i], target, state);
		if (closes(one)) {
			close(fds[i]);
			fds[i] = -1;
		}
	}
}

static void check_peer(struct test_net *net, struct link *link)
{
	static unsigned char from[200000], to[200000];
	const size_t sizes[] = { 0, 100, 5000, 200000 };

	for (size_t i = 0; i < 4; i++) {
		pattern_fill(from, sizes[i], i);
		check_int(link_exchange(net, link, from, sizes[i], to, sizes[i]), sizes[i]);
		pattern_check(to, sizes[i], i);
	}
}

/* `count` unauthenticated connections first, some accept attempts, then the peer. */
static void check_crowd(struct test_net *net, behaviour kind, size_t count)
{
	static int fds[CONNECTIONS];
	struct target target;
	struct link link;
	uint64_t state = 17;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket is blocked by one silent connection");
	capture_allow_warn();
	link_listen(net, &link);
	unauth_target(link_handle(&link), &target);
	let_in(&target, kind, count, fds, &state);
	for (int i = 0; i < 50; i++)
		check(!link_accept_step(net, &link));
	link_finish(net, &link);
	check_peer(net, &link);
	for (size_t i = 0; i < count; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	check_peer(net, &link);
	link_close(net, &link);
}

static void a_peer_is_accepted_among_120_unauthenticated_connections(struct test_net *net)
{
	check_crowd(net, NULL, CONNECTIONS);
}

static void a_peer_is_accepted_among_120_silent_connections(struct test_net *net)
{
	check_crowd(net, is_silent, CONNECTIONS);
}

static void a_peer_is_accepted_after_each_kind(struct test_net *net)
{
	for (size_t i = 0; i < KINDS; i++)
		check_crowd(net, kinds[i], 3);
}

/* The port stays open while comms exist: it must give no access to them. */
static void unauthenticated_connections_do_not_disturb_an_open_comm(struct test_net *net)
{
	static int fds[CONNECTIONS];
	struct target target;
	struct link link, other;
	uint64_t state = 18;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in Socket closes its port with the listener");
	capture_allow_warn();
	link_listen(net, &other); /* keeps the port in use */
	link_open(net, &link);
	unauth_target(link_handle(&other), &target);
	memcpy(&target.handle, link_handle(&link), sizeof(target.handle));
	let_in(&target, NULL, CONNECTIONS, fds, &state);
	check_peer(net, &link);
	link_finish(net, &other);
	check_peer(net, &other);
	check_peer(net, &link);
	for (size_t i = 0; i < CONNECTIONS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	link_close(net, &link);
	link_close(net, &other);
}

/* Even with the token of a listener whose peer has already connected. */
static void a_second_hello_is_refused(struct test_net *net)
{
	struct target target;
	struct link link, other;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no token");
	capture_allow_warn();
	link_listen(net, &other);
	link_listen(net, &link);
	unauth_target(link_handle(&link), &target);
	link_finish(net, &link);
	int fd = unauth_dial(&target, 0);
	struct anynet_wire_hello hello = unauth_hello(&target);
	unauth_say(fd, &hello, sizeof(hello));
	check_peer(net, &link);
	link_finish(net, &other);
	check_peer(net, &other);
	check_peer(net, &link);
	close(fd);
	link_close(net, &link);
	link_close(net, &other);
}

/* A stream or resume needs the secrets of the comm, too. */
static void hellos_of_every_kind_are_judged(struct test_net *net)
{
	struct target target;
	struct link link;
	int fds[64];
	size_t count = 0;

	if (net_is_builtin(net))
		check_skip("NCCL's built-in nets have no hello");
	capture_allow_warn();
	link_listen(net, &link);
	unauth_target(link_handle(&link), &target);
	for (uint8_t type = 0; type < 5; type++)
		for (uint8_t kind = 0; kind < 6; kind++) {
			struct anynet_wire_hello hello = unauth_hello(&target);
			if (type == ANYNET_HELLO && kind == ANYNET_KIND_COMM)
				continue; /* with the token: the peer itself */
			hello.type = type;
			hello.kind = kind;
			hello.stream = 60000;
			hello.streams = 60000;
			fds[count] = unauth_dial(&target, 0);
			unauth_say(fds[count++], &hello, sizeof(hello));
		}
	for (int i = 0; i < 50; i++)
		check(!link_accept_step(net, &link));
	link_finish(net, &link);
	check_peer(net, &link);
	while (count)
		close(fds[--count]);
	link_close(net, &link);
}

int main(int argc, char **argv)
{
	const struct test_case cases[] = {
		{ .name = "a_peer_is_accepted_among_120_unauthenticated_connections",
		  a_peer_is_accepted_among_120_unauthenticated_connections },
		{ .name = "a_peer_is_accepted_among_120_silent_connections",
		  a_peer_is_accepted_among_120_silent_connections },
		{ .name = "a_peer_is_accepted_after_each_kind", a_peer_is_accepted_after_each_kind },
		{ .name = "unauthenticated_connections_do_not_disturb_an_open_comm",
		  unauthenticated_connections_do_not_disturb_an_open_comm },
		{ .name = "a_second_hello_is_refused", a_second_hello_is_refused },
		{ .name = "hellos_of_every_kind_are_judged", hellos_of_every_kind_are_judged },
	};
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
