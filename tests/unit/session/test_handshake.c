/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes from outside: which are refused, when, and with what answer. test_accept.c continues with accepted
 * ones. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include <nccl_net/log.h>

#include "support/capture.h"
#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/session/listen.h"
#include "transports/wire/allow.h"
#include "transports/wire/auth.h"
#include "transports/wire/hello.h"
#include "transports/wire/hmac.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"
#include "unit/local_net.h"

static struct anynet_listener *listener;
static struct anynet_comm *accepted;
static union {
	struct anynet_wire_handle wire;
	uint8_t bytes[ANYNET_HANDLE_BYTES];
} handle;

static atomic_int flood; /* this many connections from 192.0.2.1 precede the others */

int accept4(int fd, __SOCKADDR_ARG from, socklen_t *bytes, int flags)
{
	struct sockaddr_in other = { .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(0xc0000201) };

	if (atomic_fetch_sub(&flood, 1) <= 0) {
		atomic_store(&flood, 0);
		return (int)syscall(SYS_accept4, fd, from.__sockaddr__, bytes, flags);
	}
	memcpy(from.__sockaddr__, &other, sizeof(other));
	*bytes = sizeof(other);
	return socket(AF_INET, SOCK_STREAM | flags, 0);
}

/* Settings are changed before the background thread has a listener, whose handshakes read them. */
static void start(void)
{
	log_to_capture();
	capture_allow_warn();
	local_net_start();
}

static int listen_with_them(void)
{
	return anynet_listen(&local_dev, &local_dev, handle.bytes, &listener);
}

static int setup(void **state)
{
	(void)state;
	start();
	return listen_with_them();
}

static int setup_hurried(void **state)
{
	(void)state;
	start();
	local_cfg.handshake_timeout_ms = 1;
	return listen_with_them();
}

static int setup_choosy(void **state)
{
	(void)state;
	start();
	allow_start("127.0.0.0/8");
	return listen_with_them();
}

static int setup_secret(void **state)
{
	char path[] = "/tmp/anynet-secret-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0 || write(fd, "the secret of all ranks", 23) != 23)
		return -1;
	close(fd);
	start();
	secret_start(path);
	unlink(path);
	return secret_known() ? listen_with_them() : -1;
}

static void close_all(void)
{
	if (listener)
		anynet_close_listener(listener);
	anynet_close(accepted);
	listener = NULL;
	accepted = NULL;
	anynet_net_trim(&local_dev);
}

static int teardown(void **state)
{
	(void)state;
	close_all();
	return 0;
}

static void turn(void)
{
	if (accepted)
		listen_turn();
	else
		assert_int_equal(anynet_accept(listener, &accepted), 0);
}

/* A connection to the listener's port: 0, or -errno. */
static int try_to_dial(int *fd)
{
	struct sockaddr_storage to;

	assert_true(socket_from_wire(&handle.wire.addrs[0], 0, &to));
	*fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(*fd >= 0);
	return connect(*fd, (struct sockaddr *)&to, (socklen_t)socket_addr_bytes(&to)) ? -errno : 0;
}

/* One that has sent the first bytes of a message. */
static int say(const void *message, size_t bytes)
{
	int fd;

	assert_int_equal(try_to_dial(&fd), 0);
	assert_int_equal(send(fd, message, bytes, MSG_NOSIGNAL), bytes);
	return fd;
}

/* For a comm with two streams, which waits for its sender's READY when it has been made. */
static struct anynet_wire_hello good_hello(void)
{
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, handle.wire.addrs, 1);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_COMM;
	hello.streams = 2;
	hello.endpoint = handle.wire.endpoint;
	hello.comm_id = 0x1234;
	memcpy(hello.token, handle.wire.token, sizeof(hello.token));
	return hello;
}

/* Has the engine closed the connection? */
static bool is_shut_out(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return !n || (n < 0 && errno == ECONNRESET);
}

/* True: an answer, which goes to *answer; false: it is closed without one. */
static bool is_answered(int fd, struct anynet_wire_hello *answer)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer, or an end");
	size_t got = 0;

	while (socket_recv_some(fd, answer, sizeof(*answer), &got)) {
		if (is_shut_out(fd)) {
			assert_int_equal(got, 0);
			return false;
		}
		turn();
		deadline_turn(&deadline);
	}
	assert_int_equal(answer->type, ANYNET_WELCOME);
	return true;
}

/* The peer's first connection: all earlier ones have been processed when it is answered. */
static int be_welcomed(struct anynet_wire_hello hello)
{
	struct anynet_wire_hello answer;
	int fd = say(&hello, sizeof(hello));

	assert_true(is_answered(fd, &answer));
	assert_int_equal(answer.status, ANYNET_STATUS_OK);
	return fd;
}

static void check_shut_out(struct anynet_wire_hello hello)
{
	struct anynet_wire_hello answer;
	int fd = say(&hello, sizeof(hello));

	assert_false(is_answered(fd, &answer));
	close(fd);
}

static void test_a_token_is_required(void **state)
{
	(void)state;
	for (size_t i = 0; i < ANYNET_TOKEN_BYTES; i++) {
		struct anynet_wire_hello hello = good_hello();

		hello.token[i] ^= 0x10;
		check_shut_out(hello);
	}
}

static void test_another_version_is_reported_to_peers_with_the_token(void **state)
{
	struct anynet_wire_hello hello = good_hello(), answer;
	int fd;

	(void)state;
	hello.version++;
	fd = say(&hello, sizeof(hello));
	assert_true(is_answered(fd, &answer));
	assert_int_equal(answer.status, ANYNET_STATUS_VERSION);
	assert_int_equal(answer.version, ANYNET_WIRE_VERSION);
	close(fd);
	hello.token[0] ^= 1;
	check_shut_out(hello);
}

static void test_the_first_wrong_byte_ends_it(void **state)
{
	struct anynet_wire_hello hello = good_hello();
	int unauthenticated = say("G", 1), slow = say(&hello, 1), peer = be_welcomed(hello);

	(void)state;
	assert_true(is_shut_out(unauthenticated));
	assert_false(is_shut_out(slow));
	close(unauthenticated);
	close(slow);
	close(peer);
}

static void test_an_incomplete_hello_times_out(void **state)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a welcome, and two ends");
	struct anynet_wire_hello hello = good_hello(), answer;
	int silent, slow, peer;

	(void)state;
	assert_int_equal(try_to_dial(&silent), 0);
	slow = say(&hello, sizeof(hello) - 1);
	/* On a busy machine a whole hello may be late as well. */
	while (peer = say(&hello, sizeof(hello)), !is_answered(peer, &answer)) {
		close(peer);
		deadline_turn(&deadline);
	}
	assert_int_equal(answer.status, ANYNET_STATUS_OK);
	while (!is_shut_out(silent) || !is_shut_out(slow)) {
		turn();
		deadline_turn(&deadline);
	}
	assert_false(is_shut_out(peer));
	close(silent);
	close(slow);
	close(peer);
}

/* However many there are, they do no harm: accept does not fail, and the peer is accepted after them. */
static void test_a_peer_that_is_not_allowed_does_no_harm(void **state)
{
	(void)state;
	atomic_store(&flood, 2000);
	close(be_welcomed(good_hello()));
	assert_int_equal(flood, 0);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
}

/* --- challenged connections --- */

#define DESCRIPTORS 400 /* an eighth of which may be used by handshakes of each kind */
#define REPLAYS     100

/* Until an answer of this type has come. */
static void await(int fd, uint8_t type, struct anynet_wire_hello *answer)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "an answer");
	size_t got = 0;

	while (socket_recv_some(fd, answer, sizeof(*answer), &got)) {
		assert_false(is_shut_out(fd));
		turn();
		deadline_turn(&deadline);
	}
	assert_int_equal(answer->type, type);
}

static _Atomic bool crypto_fails; /* as at exit */

int __real_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);
int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);

int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES])
{
	return crypto_fails ? -EIO : __real_secret_mac(data, bytes, mac);
}

/* A peer has been challenged, and answers late: a recorded hello, replayed again and again meanwhile, does not affect
 * it. */
static void check_late_peer(struct anynet_wire_hello theirs)
{
	struct anynet_wire_hello hello, challenge, answer, response;
	struct anynet_listener *other;
	struct rlimit before, few;
	int replays[REPLAYS], fd;
	struct auth auth;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){ DESCRIPTORS, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(anynet_listen(&local_dev, &local_dev, handle.bytes, &other), 0);
	hello = good_hello();
	hello.streams = 1;
	assert_int_equal(auth_hello(&auth, &hello), 0);
	fd = say(&hello, sizeof(hello));
	await(fd, ANYNET_CHALLENGE, &challenge);
	assert_int_equal(auth_check(&auth, &challenge), 0);
	for (int i = 0; i < REPLAYS; i++) {
		replays[i] = say(&theirs, sizeof(theirs));
		turn();
	}
	await(replays[REPLAYS - 1], ANYNET_CHALLENGE, &answer);
	assert_int_equal(auth_response(&auth, &challenge, &response), 0);
	assert_int_equal(send(fd, &response, sizeof(response), MSG_NOSIGNAL), sizeof(response));
	await(fd, ANYNET_WELCOME, &answer);
	assert_int_equal(answer.status, ANYNET_STATUS_OK);
	for (int i = 0; i < REPLAYS; i++)
		close(replays[i]);
	close(fd);
	anynet_close_listener(other);
	setrlimit(RLIMIT_NOFILE, &before);
}

static void test_hellos_said_again_take_no_place_of_others(void **state)
{
	struct anynet_wire_hello heard = good_hello();
	struct auth auth;

	(void)state;
	assert_int_equal(auth_hello(&auth, &heard), 0);
	check_late_peer(heard);
}

static void test_hellos_of_closed_comms_take_no_place_of_others(void **state)
{
	struct anynet_wire_hello heard = good_hello();
	struct auth auth;

	(void)state;
	heard.kind = ANYNET_KIND_RESUME;
	heard.token[0] ^= 1;
	assert_int_equal(auth_hello(&auth, &heard), 0);
	check_late_peer(heard);
}

static void test_who_cannot_check_a_response_says_so(void **state)
{
	struct anynet_wire_hello hello = good_hello(), challenge, response, answer;
	struct auth auth;
	int fd;

	(void)state;
	capture_allow_warn();
	assert_int_equal(auth_hello(&auth, &hello), 0);
	fd = say(&hello, sizeof(hello));
	await(fd, ANYNET_CHALLENGE, &challenge);
	assert_int_equal(auth_check(&auth, &challenge), 0);
	assert_int_equal(auth_response(&auth, &challenge, &response), 0);
	crypto_fails = true; /* the background thread may be the first to hear the response */
	assert_int_equal(send(fd, &response, sizeof(response), MSG_NOSIGNAL), sizeof(response));
	await(fd, ANYNET_WELCOME, &answer);
	crypto_fails = false;
	assert_int_equal(answer.status, ANYNET_STATUS_AUTH);
	assert_non_null(strstr(answer.reason, "cannot compute a proof"));
	close(fd);
}

static void test_the_port_is_shut_when_nobody_listens(void **state)
{
	int fd;

	(void)state;
	close(be_welcomed(good_hello()));
	close_all();
	assert_int_equal(try_to_dial(&fd), -ECONNREFUSED);
	close(fd);
}

/* Before the background thread starts, as in a process: exit handlers run in reverse order of registration. */
static int open_crypto(void **state)
{
	char why[200];

	(void)state;
	return hmac_open(hmac_library_names, why, sizeof(why));
}

/* The second NIC of a comm. It is tried again for each connection. */
static void test_a_nic_that_cannot_listen_is_told_once(void **state)
{
	const struct anynet_device *set[] = { &local_dev, NULL };
	struct anynet_device other = local_dev;
	struct anynet_wire_addr addrs[2];
	struct anynet_listener *none;
	uint8_t unused[ANYNET_HANDLE_BYTES];

	(void)state;
	anynet_log_start(capture_logger, ANYNET_LOG_INFO);
	set[1] = &other;
	other.index = 1;
	((struct sockaddr_in *)&other.addr)->sin_addr.s_addr =
		htonl(0xc0000201); /* no host has it */
	for (int i = 0; i < 3; i++) {
		listen_hold(set, 2, addrs);
		assert_int_not_equal(addrs[0].port, 0);
		assert_int_equal(addrs[1].port, 0);
		listen_drop();
	}
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	assert_int_equal(capture_count(CAPTURE_INFO, "cannot listen"), 1);
	/* NCCL gets the error: a WARN each time. */
	for (int i = 1; i < 3; i++) {
		assert_int_equal(anynet_listen(&other, &other, unused, &none), -EADDRNOTAVAIL);
		assert_int_equal(capture_count(CAPTURE_WARN, "cannot listen"), i);
	}
}

/* Peers reach it over the other NICs of the handle. */
static void test_a_nic_that_cannot_listen_is_not_needed(void **state)
{
	static struct anynet_device nics[2];
	struct anynet_listener *door;
	union {
		struct anynet_wire_handle wire;
		uint8_t bytes[ANYNET_HANDLE_BYTES];
	} way;

	(void)state;
	nics[0] = nics[1] = local_dev;
	strcpy(nics[0].ifname, "eth0");
	strcpy(nics[1].ifname, "eth1");
	((struct sockaddr_in *)&nics[0].addr)->sin_addr.s_addr = htonl(0xc0000201);
	nics[0].index = 2; /* the sockets of others may still be open */
	nics[1].index = 3;
	local_cfg.stripe = ANYNET_SWITCH_ON;
	anynet_net_start(&local_cfg, nics, 2);
	assert_int_equal(anynet_listen(&nics[0], &local_dev, way.bytes, &door), 0);
	assert_int_equal(way.wire.addrs[0].device, 3);
	assert_int_not_equal(way.wire.addrs[0].port, 0);
	assert_int_equal(way.wire.addrs[1].port, 0);
	assert_int_equal(capture_count(CAPTURE_WARN, NULL), 0);
	anynet_close_listener(door);
	local_net_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST_WITH(settings, name) cmocka_unit_test_setup_teardown(name, settings, teardown)
#define TEST(name)                TEST_WITH(setup, name)
		TEST(test_a_token_is_required),
		TEST(test_another_version_is_reported_to_peers_with_the_token),
		TEST(test_the_first_wrong_byte_ends_it),
		TEST_WITH(setup_hurried, test_an_incomplete_hello_times_out),
		TEST_WITH(setup_choosy, test_a_peer_that_is_not_allowed_does_no_harm),
		TEST_WITH(setup_secret, test_hellos_said_again_take_no_place_of_others),
		TEST_WITH(setup_secret, test_hellos_of_closed_comms_take_no_place_of_others),
		TEST_WITH(setup_secret, test_who_cannot_check_a_response_says_so),
		TEST(test_the_port_is_shut_when_nobody_listens),
		TEST(test_a_nic_that_cannot_listen_is_told_once),
		TEST(test_a_nic_that_cannot_listen_is_not_needed),
	};

	return cmocka_run_group_tests_name("handshake", tests, open_crypto, NULL);
}
