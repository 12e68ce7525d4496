/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of the handshake with a secret, message by message, and what an eavesdropper can do with its messages. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/capture.h"
#include "transports/wire/auth.h"
#include "transports/wire/hello.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"
#include "unit/local_net.h"

static bool crypto_fails; /* as at exit */

int __real_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);
int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);

int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES])
{
	return crypto_fails ? -EIO : __real_secret_mac(data, bytes, mac);
}

static char dir[] = "/tmp/anynet-auth-XXXXXX";
static char ours[sizeof(dir) + 16], others[sizeof(dir) + 16];

static int write_secret(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int make_secrets(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(ours, sizeof(ours), "%s/ours", dir);
	snprintf(others, sizeof(others), "%s/others", dir);
	return write_secret(ours, "the secret of all ranks") |
	       write_secret(others, "another secret ...");
}

static int remove_secrets(void **state)
{
	(void)state;
	unlink(ours);
	unlink(others);
	return rmdir(dir);
}

static int setup(void **state)
{
	(void)state;
	log_to_capture();
	local_net_start();
	secret_start(ours);
	return secret_known() ? 0 : -1;
}

/* A handshake in progress, with the messages of each side. */
struct shake {
	struct auth connector, acceptor;
	struct anynet_wire_hello hello, challenge, response, welcome;
};

static struct anynet_wire_hello new_hello(void)
{
	struct anynet_wire_addr addr = { .family = 4, .port = 1, .ip = { 10, 0, 0, 1 } };
	struct anynet_wire_hello hello;

	hello_fill(&hello, &local_dev, &addr, 1);
	hello.type = ANYNET_HELLO;
	hello.kind = ANYNET_KIND_RESUME;
	hello.streams = 1;
	hello.stream = 3;
	hello.epoch = 7;
	hello.endpoint = 2;
	hello.comm_id = 0x1122334455667788;
	memset(hello.token, 0x5a, sizeof(hello.token));
	return hello;
}

static struct anynet_wire_hello new_welcome(void)
{
	struct anynet_wire_hello welcome = new_hello();

	welcome.type = ANYNET_WELCOME;
	welcome.frames = 12;
	welcome.part = 128;
	return welcome;
}

static enum auth_verdict judge(struct shake *shake)
{
	char why[sizeof(shake->hello.reason)];

	assert_int_equal(hello_check(&shake->hello, ANYNET_HELLO), 0);
	return auth_judge(&shake->acceptor, &shake->hello, why, sizeof(why));
}

/* Up to the challenge, which the connector has not received. */
static void begin(struct shake *shake)
{
	shake->hello = new_hello();
	assert_int_equal(auth_hello(&shake->connector, &shake->hello), 0);
	assert_int_equal(judge(shake), AUTH_CHALLENGE);
	assert_int_equal(auth_challenge(&shake->acceptor, &shake->hello, &shake->challenge), 0);
	assert_int_equal(hello_check(&shake->challenge, ANYNET_CHALLENGE), 0);
}

static void go_on_to_the_response(struct shake *shake)
{
	begin(shake);
	assert_int_equal(auth_check(&shake->connector, &shake->challenge), 0);
	assert_int_equal(auth_response(&shake->connector, &shake->challenge, &shake->response), 0);
	assert_int_equal(hello_check(&shake->response, ANYNET_RESPONSE), 0);
}

static void test_both_sides_prove_that_they_know_the_secret(void **state)
{
	struct shake shake;

	(void)state;
	go_on_to_the_response(&shake);
	assert_int_equal(auth_check(&shake.acceptor, &shake.response), 0);
	shake.welcome = new_welcome();
	assert_int_equal(auth_prove(&shake.acceptor, &shake.welcome), 0);
	assert_int_equal(hello_check(&shake.welcome, ANYNET_WELCOME), 0);
	assert_int_equal(auth_check(&shake.connector, &shake.welcome), 0);
	assert_int_equal(capture_count(0, NULL), 0);
}

static void test_messages_belong_together(void **state)
{
	struct shake shake;

	(void)state;
	go_on_to_the_response(&shake);
	assert_int_equal(shake.challenge.comm_id, shake.hello.comm_id);
	assert_int_equal(shake.challenge.endpoint, shake.hello.endpoint);
	assert_int_equal(shake.challenge.kind, ANYNET_KIND_RESUME);
	assert_int_equal(shake.response.stream, 3);
	assert_int_equal(shake.response.epoch, 7);
	assert_int_equal(shake.response.type, ANYNET_RESPONSE);
}

/* Changed bytes, or messages of two handshakes, are detected. */
static void a_change_is_noticed(const struct auth *auth, const struct anynet_wire_hello *message)
{
	for (size_t at = 0; at < sizeof(*message); at++) {
		struct anynet_wire_hello changed = *message;
		struct auth copy = *auth;

		((uint8_t *)&changed)[at] ^= (uint8_t)(1 + at % 255);
		assert_int_equal(auth_check(&copy, &changed), -EACCES);
		assert_memory_equal(&copy, auth, sizeof(copy));
	}
}

static void test_no_byte_can_be_changed(void **state)
{
	const struct auth nothing = { { 0 } };
	struct auth acceptor, connector;
	struct shake shake;

	(void)state;
	begin(&shake);
	a_change_is_noticed(&nothing, &shake.hello);
	a_change_is_noticed(&shake.connector, &shake.challenge);
	connector = shake.connector;
	assert_int_equal(auth_check(&connector, &shake.challenge), 0);
	assert_int_equal(auth_response(&connector, &shake.challenge, &shake.response), 0);
	a_change_is_noticed(&shake.acceptor, &shake.response);
	acceptor = shake.acceptor;
	assert_int_equal(auth_check(&acceptor, &shake.response), 0);
	shake.welcome = new_welcome();
	assert_int_equal(auth_prove(&acceptor, &shake.welcome), 0);
	a_change_is_noticed(&connector, &shake.welcome);
}

static void test_a_replayed_hello_meets_a_new_challenge(void **state)
{
	struct shake heard, replay;

	(void)state;
	go_on_to_the_response(&heard);
	replay = heard;
	assert_int_equal(judge(&replay), AUTH_CHALLENGE);
	assert_int_equal(auth_challenge(&replay.acceptor, &replay.hello, &replay.challenge), 0);
	assert_memory_not_equal(replay.challenge.nonce, heard.challenge.nonce,
				sizeof(heard.challenge.nonce));
	assert_int_equal(auth_check(&replay.acceptor, &heard.response), -EACCES);
}

static void test_a_replayed_challenge_is_not_accepted(void **state)
{
	struct shake heard, fresh;

	(void)state;
	go_on_to_the_response(&heard);
	begin(&fresh);
	assert_memory_not_equal(fresh.hello.nonce, heard.hello.nonce, sizeof(heard.hello.nonce));
	assert_int_equal(auth_check(&fresh.connector, &heard.challenge), -EACCES);
	assert_int_equal(auth_check(&fresh.connector, &heard.response), -EACCES);
}

/* A proof that is sent back is not accepted. */
static void test_a_proof_cannot_be_sent_back(void **state)
{
	struct anynet_wire_hello echo;
	struct shake shake;

	(void)state;
	begin(&shake);
	echo = shake.challenge;
	assert_int_equal(auth_check(&shake.acceptor, &echo), -EACCES);
	echo.type = ANYNET_RESPONSE;
	assert_int_equal(auth_check(&shake.acceptor, &echo), -EACCES);
	echo = shake.hello;
	echo.type = ANYNET_CHALLENGE;
	assert_int_equal(auth_check(&shake.connector, &echo), -EACCES);
	assert_int_equal(auth_check(&shake.connector, &shake.hello), -EACCES);
}

/* Its own hello proves nothing: no message can be left out. */
static void test_no_message_can_be_left_out(void **state)
{
	struct anynet_wire_hello welcome = new_welcome();
	struct shake shake;
	struct auth early;

	(void)state;
	begin(&shake);
	early = shake.acceptor;
	assert_int_equal(auth_prove(&early, &welcome), 0);
	assert_int_equal(auth_check(&shake.connector, &welcome), -EACCES);
}

static void refuses(const char *acceptors, const char *text)
{
	struct shake shake = { .hello = new_hello() };
	char why[sizeof(shake.hello.reason)] = "";

	assert_int_equal(auth_hello(&shake.connector, &shake.hello), 0);
	snprintf(shake.hello.host, sizeof(shake.hello.host), "otherhost");
	shake.hello.pid = 4711;
	secret_start(acceptors);
	assert_int_equal(auth_judge(&shake.acceptor, &shake.hello, why, sizeof(why)), AUTH_REFUSE);
	if (!strstr(why, text))
		fail_msg("'%s' does not say '%s'", why, text);
	assert_true(strlen(why) < sizeof(why) - 1);
}

static void test_both_sides_are_told_what_is_wrong(void **state)
{
	char text[256];

	(void)state;
	refuses(others, "host otherhost pid 4711 and host");
	secret_start(ours);
	refuses(others, "have different secrets (ANYNET_SECRET_FILE)");
	secret_start(ours);
	snprintf(text, sizeof(text),
		 "host otherhost pid 4711 has a secret (ANYNET_SECRET_FILE), "
		 "host %s pid %d has none",
		 anynet_net.host, getpid());
	refuses("", text);
	secret_start("");
	snprintf(text, sizeof(text),
		 "host %s pid %d has a secret (ANYNET_SECRET_FILE), host "
		 "otherhost pid 4711 has none",
		 anynet_net.host, getpid());
	refuses(ours, text);
	secret_start(ours);
	refuses(dir, "cannot use its secret file (ANYNET_SECRET_FILE)");
	secret_start("");
	refuses(dir, "cannot use its secret file (ANYNET_SECRET_FILE)");
}

/* The secrets may be the same. */
static void test_who_cannot_compute_a_proof_says_so(void **state)
{
	struct shake shake = { .hello = new_hello() };
	char why[sizeof(shake.hello.reason)] = "", text[128];

	(void)state;
	assert_int_equal(auth_hello(&shake.connector, &shake.hello), 0);
	crypto_fails = true;
	assert_int_equal(auth_judge(&shake.acceptor, &shake.hello, why, sizeof(why)), AUTH_REFUSE);
	assert_int_equal(auth_check(&shake.acceptor, &shake.hello), -EIO);
	crypto_fails = false;
	snprintf(text, sizeof(text), "host %s pid %d cannot compute a proof", anynet_net.host,
		 getpid());
	if (!strstr(why, text))
		fail_msg("'%s' does not say '%s'", why, text);
}

static void test_the_longest_hosts_fit_into_the_reason(void **state)
{
	struct shake shake = { .hello = new_hello() };
	char why[sizeof(shake.hello.reason)] = "";

	(void)state;
	memset(anynet_net.host, 'm', sizeof(anynet_net.host) - 1);
	memset(shake.hello.host, 'w', sizeof(shake.hello.host) - 1);
	anynet_net.pid = shake.hello.pid = UINT32_MAX;
	assert_int_equal(auth_judge(&shake.acceptor, &shake.hello, why, sizeof(why)), AUTH_REFUSE);
	assert_string_equal(why + strlen(why) - strlen("has none"), "has none");
	local_net_start();
}

static void test_without_secrets_nothing_is_proved(void **state)
{
	const uint8_t zeros[ANYNET_NONCE_BYTES] = { 0 };
	struct shake shake = { .hello = new_hello() };

	(void)state;
	secret_start("");
	assert_int_equal(auth_hello(&shake.connector, &shake.hello), 0);
	assert_int_equal(shake.hello.features & ANYNET_FEATURE_SECRET, 0);
	assert_memory_equal(shake.hello.nonce, zeros, sizeof(zeros));
	assert_memory_equal(shake.hello.proof, zeros, sizeof(zeros));
	assert_int_equal(judge(&shake), AUTH_ADMIT);
}

/* No step without the previous one. */
static void test_nobody_connects_with_an_unusable_secret(void **state)
{
	struct shake shake = { .hello = new_hello() };

	(void)state;
	secret_start(dir);
	assert_int_equal(auth_hello(&shake.connector, &shake.hello), -EACCES);
	assert_int_equal(judge(&shake), AUTH_REFUSE);
}

/* The receiver makes texts printable before it checks the proof. */
static void test_a_host_may_have_an_odd_name(void **state)
{
	struct shake shake;

	(void)state;
	snprintf(anynet_net.host, sizeof(anynet_net.host), "k\xc3\xb6ln\x01");
	go_on_to_the_response(&shake);
	assert_string_equal(shake.hello.host, "k??ln?");
	assert_int_equal(auth_check(&shake.acceptor, &shake.response), 0);
	local_net_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_both_sides_prove_that_they_know_the_secret, setup),
		cmocka_unit_test_setup(test_messages_belong_together, setup),
		cmocka_unit_test_setup(test_no_byte_can_be_changed, setup),
		cmocka_unit_test_setup(test_a_replayed_hello_meets_a_new_challenge, setup),
		cmocka_unit_test_setup(test_a_replayed_challenge_is_not_accepted, setup),
		cmocka_unit_test_setup(test_a_proof_cannot_be_sent_back, setup),
		cmocka_unit_test_setup(test_no_message_can_be_left_out, setup),
		cmocka_unit_test_setup(test_both_sides_are_told_what_is_wrong, setup),
		cmocka_unit_test_setup(test_who_cannot_compute_a_proof_says_so, setup),
		cmocka_unit_test_setup(test_the_longest_hosts_fit_into_the_reason, setup),
		cmocka_unit_test_setup(test_without_secrets_nothing_is_proved, setup),
		cmocka_unit_test_setup(test_nobody_connects_with_an_unusable_secret, setup),
		cmocka_unit_test_setup(test_a_host_may_have_an_odd_name, setup),
	};
	char why[512];

	if (hmac_open(hmac_library_names, why, sizeof(why))) {
		printf("SKIP %s\n", why);
		return 77;
	}
	return cmocka_run_group_tests(tests, make_secrets, remove_secrets);
}
