/* SPDX-License-Identifier: Apache-2.0 */
/* Dialling with a secret: which answers are believed without a proof, and which proofs are none. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "transports/base/socket.h"
#include "transports/wire/secret.h"
#include "unit/session/line.h"

static bool crypto_fails; /* as at exit */

int __real_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);
int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);

int __wrap_secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES])
{
	return crypto_fails ? -EIO : __real_secret_mac(data, bytes, mac);
}

/* Without a proof only a refusal that an honest peer cannot prove is believed. */
static void test_with_a_secret_only_refusals_need_no_proof(void **state)
{
	(void)state;
	for (unsigned status = 0; status < ANYNET_STATUS_COUNT; status++) {
		struct anynet_wire_hello welcome = welcome_with(status);

		if (status == ANYNET_STATUS_VERSION || status == ANYNET_STATUS_AUTH)
			comes_to(&welcome, status, "his own words");
		else
			comes_to(&welcome, ANYNET_STATUS_AUTH, "has not proved that it knows");
	}
}

static void challenge(struct line *line, struct anynet_wire_hello *message)
{
	char why[sizeof(line->hello.reason)];

	ring(line);
	assert_int_equal(auth_judge(&line->auth, &line->hello, why, sizeof(why)), AUTH_CHALLENGE);
	assert_int_equal(auth_challenge(&line->auth, &line->hello, message), 0);
}

static void test_a_wrong_challenge_is_not_answered(void **state)
{
	struct anynet_wire_hello message;
	struct line line;
	char byte;

	(void)state;
	challenge(&line, &message);
	message.nonce[7] ^= 1;
	answer(&line, &message, sizeof(message));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.hello->status, ANYNET_STATUS_AUTH);
	assert_non_null(strstr(line.dial.hello->reason, "has not proved"));
	dial_close(&line.dial);
	wait_for(line.fd);
	assert_int_equal(recv(line.fd, &byte, 1, 0), 0);
	hang_up(&line);
}

/* The proof is right, but the challenge belongs to another connection. */
static void test_a_challenge_to_another_question_is_not_answered(void **state)
{
	struct anynet_wire_hello message;
	struct line line;

	(void)state;
	challenge(&line, &message);
	line.auth = (struct auth){ { 0 } };
	assert_int_equal(auth_check(&line.auth, &line.hello), 0);
	message.stream++;
	assert_int_equal(auth_prove(&line.auth, &message), 0);
	answer(&line, &message, sizeof(message));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

/* Up to the response, which is right. */
static void converse(struct line *line)
{
	struct anynet_wire_hello message;

	challenge(line, &message);
	answer(line, &message, sizeof(message));
	listen_to(line, &message);
	assert_int_equal(hello_check(&message, ANYNET_RESPONSE), 0);
	assert_int_equal(auth_check(&line->auth, &message), 0);
}

static void test_a_proven_welcome_is_believed(void **state)
{
	(void)state;
	for (unsigned status = 0; status < ANYNET_STATUS_COUNT; status++) {
		struct anynet_wire_hello welcome = welcome_with(status);
		struct line line;

		converse(&line);
		welcome.frames = 1000 + status;
		assert_int_equal(auth_prove(&line.auth, &welcome), 0);
		answer(&line, &welcome, sizeof(welcome));
		assert_int_equal(end_of(&line), 0);
		assert_int_equal(line.dial.hello->status, status);
		assert_int_equal(line.dial.hello->frames, 1000 + status);
		hang_up(&line);
	}
}

static void test_a_welcome_changed_on_the_way_is_not(void **state)
{
	struct anynet_wire_hello welcome = welcome_with(ANYNET_STATUS_OK);
	struct line line;

	(void)state;
	converse(&line);
	assert_int_equal(auth_prove(&line.auth, &welcome), 0);
	welcome.frames++;
	answer(&line, &welcome, sizeof(welcome));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.hello->status, ANYNET_STATUS_AUTH);
	hang_up(&line);
}

static void test_a_second_challenge_is_not_answered(void **state)
{
	struct anynet_wire_hello again;
	struct line line;

	(void)state;
	converse(&line);
	assert_int_equal(auth_challenge(&line.auth, &line.hello, &again), 0);
	answer(&line, &again, sizeof(again));
	assert_int_equal(end_of(&line), -EPROTO);
	hang_up(&line);
}

/* That is no fault of the peer. */
static void test_a_proof_that_cannot_be_checked_is_an_error_here(void **state)
{
	struct anynet_wire_hello message = welcome_with(ANYNET_STATUS_OK);
	struct line line;

	(void)state;
	for (int challenged = 0; challenged < 2; challenged++) {
		if (challenged) {
			converse(&line);
			message = welcome_with(ANYNET_STATUS_OK);
			assert_int_equal(auth_prove(&line.auth, &message), 0);
		} else {
			challenge(&line, &message);
		}
		answer(&line, &message, sizeof(message));
		crypto_fails = true;
		assert_int_equal(end_of(&line), -EIO);
		crypto_fails = false;
		hang_up(&line);
	}
}

static void test_an_unusable_secret_dials_nobody(void **state)
{
	struct comm_paths paths = find_other();
	struct sockaddr_storage from;
	struct dial dial = DIAL_INIT;

	(void)state;
	secret_start(secret_dir);
	assert_true(dial_pair(&dial, &paths, (struct anynet_wire_pair){ 0, 0 }));
	assert_int_equal(dial_start(&dial, &paths, NULL, ANYNET_KIND_COMM, 0, 0), -EACCES);
	assert_int_equal(dial.state, DIAL_IDLE);
	assert_int_equal(socket_accept(other, &from), -EAGAIN);
	dial_close(&dial);
	close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_with_a_secret_only_refusals_need_no_proof, with_secret),
		cmocka_unit_test_setup(test_a_wrong_challenge_is_not_answered, with_secret),
		cmocka_unit_test_setup(test_a_challenge_to_another_question_is_not_answered,
				       with_secret),
		cmocka_unit_test_setup(test_a_proven_welcome_is_believed, with_secret),
		cmocka_unit_test_setup(test_a_welcome_changed_on_the_way_is_not, with_secret),
		cmocka_unit_test_setup(test_a_second_challenge_is_not_answered, with_secret),
		cmocka_unit_test_setup(test_a_proof_that_cannot_be_checked_is_an_error_here,
				       with_secret),
		cmocka_unit_test_setup(test_an_unusable_secret_dials_nobody, with_secret),
	};

	if (!secrets_work())
		return 77;
	return cmocka_run_group_tests(tests, make_secret, remove_secret);
}
