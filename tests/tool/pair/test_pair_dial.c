/* SPDX-License-Identifier: Apache-2.0 */
/* What data ports are sent, and which peers are sent it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/pair/dial.h"
#include "tools/pair/proof.h"
#include "tools/pair/responder.h"
#include "tools/shared/address.h"
#include "tools/shared/member.h"

#define CHOSEN   "FLUSHALL\r\nQUIT\r\n" /* as the token of a client that targets a key-value store */
#define MANY     (64 << 20)
#define BANNER   "SSH-2.0-OpenSSH_9.6p1 Debian-4\r\n"
#define HEARD_MS 250000

static struct sockaddr_storage address_of(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t len = sizeof(at);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	return at;
}

static int listener(void)
{
	struct sockaddr_storage at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(address_parse("127.0.0.1", 0, &at));
	assert_int_equal(bind(fd, (struct sockaddr *)&at, address_bytes(&at)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static json_t *dial(const struct sockaddr_storage *to, const void *token)
{
	struct dial d = { .to = *to, .bytes = MANY, .ms = 1000 };

	memcpy(d.token, token, sizeof(d.token));
	return dial_run(&d);
}

static void expect(json_t *result, const char *state)
{
	assert_string_equal(member_text(result, "state"), state);
	json_decref(result);
}

/* A program that sends a banner to a new connection, or echoes its input. */
struct unauthenticated {
	const char *says;
	bool echoes;
};

/* Runs in a child, whose exit status is the number of bytes received, or 200: it received the chosen text. */
static void hear(int fd, const struct unauthenticated *s)
{
	char text[4096];
	size_t heard = 0;
	ssize_t n;
	int c;

	alarm(HEARD_MS / 1000);
	c = accept(fd, NULL, NULL);
	if (s->says && send(c, s->says, strlen(s->says), MSG_NOSIGNAL) < 0)
		_exit(201);
	while ((n = recv(c, text + heard, sizeof(text) - heard, 0)) > 0) {
		if (s->echoes)
			send(c, text + heard, (size_t)n, MSG_NOSIGNAL);
		heard += (size_t)n;
		if (heard > 150 || memmem(text, heard, CHOSEN, 16))
			_exit(200);
	}
	_exit((int)heard);
}

static void test_unauthenticated_peers_are_sent_nothing(void **state)
{
	static const struct unauthenticated peers[] = { { 0 }, { .echoes = true }, { BANNER, false } };

	(void)state;
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++) {
		int fd = listener(), status;
		struct sockaddr_storage at = address_of(fd);
		/* A peer that sends the token itself has proved nothing. */
		const char *token = peers[i].says ? peers[i].says : CHOSEN;
		pid_t pid = fork();

		if (!pid)
			hear(fd, &peers[i]);
		close(fd);
		expect(dial(&at, token), "not anynet");
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), 0, 64);
	}
}

static void test_peer_with_the_token_is_sent_data(void **state)
{
	struct responder *r = responder_new();
	struct sockaddr_storage at;
	json_t *result;

	(void)state;
	assert_true(address_parse("127.0.0.1", 0, &at));
	address_set_port(&at, responder_listen(r, &at, 0));
	assert_int_equal(responder_start(r), 0);
	result = dial(&at, responder_token(r));
	assert_true(member_int(result, "bytes", 1, MANY, 0) > 0);
	expect(result, "ok");
	expect(dial(&at, CHOSEN), "not anynet");
	responder_stop(r);
}

/* Connections that send nothing do not block others. */
static void test_silent_connections(void **state)
{
	struct responder *r = responder_new();
	struct sockaddr_storage at;
	int silent[RESPONDER_STREAMS];

	(void)state;
	assert_true(address_parse("127.0.0.1", 0, &at));
	address_set_port(&at, responder_listen(r, &at, 0));
	assert_int_equal(responder_start(r), 0);
	for (size_t i = 0; i < RESPONDER_STREAMS; i++) {
		silent[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(silent[i], (struct sockaddr *)&at, address_bytes(&at)), 0);
	}
	expect(dial(&at, responder_token(r)), "ok");
	for (size_t i = 0; i < RESPONDER_STREAMS; i++)
		close(silent[i]);
	responder_stop(r);
}

/* The last test vector of SipHash's reference implementation with 16 bytes of text. */
static void test_the_proof_is_siphash(void **state)
{
	static const unsigned char wanted[] = { 0xdb, 0x9b, 0xc2, 0x57, 0x7f, 0xcc, 0x2a, 0x3f };
	unsigned char bytes[16], proof[PROOF_BYTES];

	(void)state;
	for (unsigned char i = 0; i < 16; i++)
		bytes[i] = i;
	proof_make(bytes, bytes, proof);
	assert_memory_equal(proof, wanted, sizeof(proof));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unauthenticated_peers_are_sent_nothing),
		cmocka_unit_test(test_peer_with_the_token_is_sent_data),
		cmocka_unit_test(test_silent_connections),
		cmocka_unit_test(test_the_proof_is_siphash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
