/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/session/line.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/check.h"
#include "transports/base/socket.h"
#include "transports/wire/secret.h"
#include "unit/environment.h"

char secret_dir[] = "/tmp/anynet-dial-XXXXXX";
static char secret_file[sizeof(secret_dir) + 16];
int other;

bool secrets_work(void)
{
	char why[512];

	if (!hmac_open(hmac_library_names, why, sizeof(why)))
		return true;
	printf("SKIP %s\n", why);
	return false;
}

int make_secret(void **state)
{
	static const char text[] = "the secret of all ranks";
	int fd;

	(void)state;
	local_net_start();
	if (!mkdtemp(secret_dir))
		return -1;
	snprintf(secret_file, sizeof(secret_file), "%s/secret", secret_dir);
	fd = open(secret_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return write(fd, text, sizeof(text)) == sizeof(text) ? close(fd) : -1;
}

int remove_secret(void **state)
{
	(void)state;
	unlink(secret_file);
	return rmdir(secret_dir);
}

int without_secret(void **state)
{
	(void)state;
	log_to_capture();
	secret_start("");
	return 0;
}

int with_secret(void **state)
{
	without_secret(state);
	secret_start(secret_file);
	return secret_known() ? 0 : 77;
}

struct comm_paths find_other(void)
{
	struct comm_paths paths = {
		.version = ANYNET_WIRE_VERSION, .comm_id = 77, .own_count = 1, .peer_count = 1
	};

	other = socket_listen(&local_dev.addr, &local_cfg);
	assert_true(other >= 0);
	paths.dev = paths.own[0] = &local_dev;
	assert_true(
		socket_to_wire(&local_dev.addr, (uint16_t)socket_port(other), 0, &paths.peer[0]));
	return paths;
}

void wait_for(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	assert_int_equal(poll(&ready, 1, TEST_PATIENCE_MS), 1);
}

void listen_to(struct line *line, struct anynet_wire_hello *message)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a message");
	size_t got = 0;

	while (socket_recv_some(line->fd, message, sizeof(*message), &got)) {
		assert_int_equal(dial_step(&line->dial), -EAGAIN);
		deadline_turn(&deadline);
	}
}

void ring(struct line *line)
{
	struct comm_paths paths = find_other();
	struct sockaddr_storage from;

	*line = (struct line){ .dial = DIAL_INIT };
	assert_true(dial_pair(&line->dial, &paths, (struct anynet_wire_pair){ 0, 0 }));
	assert_int_equal(dial_start(&line->dial, &paths, NULL, ANYNET_KIND_RESUME, 3, 9), 0);
	wait_for(other);
	line->fd = socket_accept(other, &from);
	assert_true(line->fd >= 0);
	listen_to(line, &line->hello);
}

void answer(struct line *line, const struct anynet_wire_hello *message, size_t bytes)
{
	size_t sent = 0;

	assert_int_equal(socket_send_some(line->fd, message, bytes, &sent), 0);
}

int end_of(struct line *line)
{
	struct deadline deadline = deadline_in(TEST_PATIENCE_MS, "a dial to end");
	int ret;

	while ((ret = dial_step(&line->dial)) == -EAGAIN)
		deadline_turn(&deadline);
	return ret;
}

void hang_up(struct line *line)
{
	dial_close(&line->dial);
	close(line->fd);
	close(other);
}

struct anynet_wire_hello welcome_with(enum anynet_hello_status status)
{
	struct anynet_wire_hello welcome;

	hello_fill(&welcome, &local_dev, NULL, 0);
	welcome.type = ANYNET_WELCOME;
	welcome.kind = ANYNET_KIND_RESUME;
	welcome.stream = 3;
	welcome.epoch = 9;
	welcome.status = status;
	welcome.comm_id = 77;
	snprintf(welcome.host, sizeof(welcome.host), "elsewhere");
	snprintf(welcome.reason, sizeof(welcome.reason), "his own words");
	return welcome;
}

void comes_to(const struct anynet_wire_hello *message, enum anynet_hello_status status,
	      const char *reason)
{
	struct line line;

	ring(&line);
	answer(&line, message, sizeof(*message));
	assert_int_equal(end_of(&line), 0);
	assert_int_equal(line.dial.state, DIAL_DONE);
	assert_int_equal(line.dial.hello->status, status);
	if (!strstr(line.dial.hello->reason, reason))
		fail_msg("'%s' does not say '%s'", line.dial.hello->reason, reason);
	hang_up(&line);
}
