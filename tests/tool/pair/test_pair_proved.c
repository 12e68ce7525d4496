/* SPDX-License-Identifier: Apache-2.0 */
/* A process that drives the plugin connects only to addresses that have proved themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nccl_net/wire.h>

#include "tools/pair/traffic.h"
#include "tools/pair/wire.h"
#include "tools/shared/address.h"
#include "tools/shared/hex.h"
#include "tools/shared/member.h"
#include "tools/shared/net/driver.h"
#include "tools/shared/proved.h"

#define LONG_MS 60000

static const char *plugin;

static struct sockaddr_storage parse(const char *text, int port)
{
	struct sockaddr_storage addr;

	assert_true(address_parse(text, port, &addr));
	return addr;
}

static int try_connect(int type, const char *text, int port)
{
	struct sockaddr_storage to = parse(text, port);
	int fd = socket(to.ss_family, type | SOCK_CLOEXEC, 0), error = 0;

	if (connect(fd, (struct sockaddr *)&to, address_bytes(&to)))
		error = errno;
	close(fd);
	return error;
}

/* The plugin takes addresses from its peer, over connections as well as in handles; so connect itself is confined. */
static void test_confined(void **state)
{
	static struct proved proved;
	struct sockaddr_storage at = parse("127.0.0.1", 0);
	int fd = address_listen(&at, 4), port = address_port(&at);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(try_connect(SOCK_STREAM, "127.0.0.1", port), 0);
	proved_confine(&proved);
	assert_int_equal(try_connect(SOCK_STREAM, "127.0.0.1", port), EACCES);
	assert_int_equal(try_connect(SOCK_STREAM, "::ffff:127.0.0.1", port), EACCES);
	assert_int_equal(try_connect(SOCK_STREAM, "0.0.0.0", port), EACCES);
	assert_int_equal(try_connect(SOCK_DGRAM, "127.0.0.1", port), 0);
	assert_int_equal(strncmp(proved_refused(), "127.0.0.1 port ", 15), 0);
	for (int i = 0; i < 2 * PROVED_MAX; i++)
		proved_add(&proved, &at);
	assert_int_equal(proved.count, 1);
	assert_int_equal(try_connect(SOCK_STREAM, "127.0.0.1", port), 0);
	assert_int_equal(try_connect(SOCK_STREAM, "127.0.0.1", PROVED_PORT_MIN - 1), EACCES);
	assert_int_equal(try_connect(SOCK_STREAM, "127.0.0.2", port), EACCES);
	proved_confine(NULL);
	close(fd);
}

/* The server's side of a measurement, in a process of its own, whose peer is this test. */
static pid_t begin_traffic(int fd, int other, const struct proved *proved)
{
	const struct traffic t = {
		.plugin = plugin, .transport = "tcp", .proved = proved, .channels = 1, .bytes = 1
	};
	pid_t pid = fork();
	json_t *result;

	if (pid)
		return pid;
	close(other);
	result = traffic_run(fd, &t);
	pair_send(fd, result, LONG_MS);
	_exit(0);
}

static json_t *handles_naming(const struct sockaddr_storage *victim)
{
	struct anynet_wire_handle handle = { .magic = ANYNET_HANDLE_MAGIC,
					     .version = ANYNET_WIRE_VERSION,
					     .oldest = ANYNET_WIRE_OLDEST,
					     .transports = 1 };
	char text[HEX_TEXT(DRIVER_HANDLE_BYTES)];

	memcpy(handle.token, "FLUSHALL\r\nQUIT\r\n", sizeof(handle.token));
	handle.addrs[0].family = 4;
	handle.addrs[0].port = (uint16_t)address_port(victim);
	memcpy(handle.addrs[0].ip, &((const struct sockaddr_in *)victim)->sin_addr, 4);
	hex_print(&handle, sizeof(handle), text);
	return json_pack("{s:s, s:[s]}", "error", "", "handles", text);
}

/* Waits for a message with this member, or for the end. */
static json_t *receive(int fd)
{
	json_t *message = NULL;

	assert_int_equal(pair_recv(fd, &message, LONG_MS), 0);
	return message;
}

/* Sends handles that name a listener. Returns the error of the measurement; *heard: bytes that the listener got. */
static json_t *attack(const struct proved *proved, ssize_t *heard)
{
	struct sockaddr_storage victim = parse("127.0.0.2", 0);
	int listener = address_listen(&victim, 4), ends[2], c;
	struct pollfd pfd = { .fd = listener, .events = POLLIN };
	char bytes[2048];
	json_t *result;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = begin_traffic(ends[1], ends[0], proved);
	close(ends[1]);
	json_decref(receive(ends[0])); /* its handles */
	assert_int_equal(pair_send_new(ends[0], handles_naming(&victim), LONG_MS), 0);
	*heard = 0;
	if (proved->count > 1) {
		assert_int_equal(poll(&pfd, 1, LONG_MS), 1);
		c = accept(listener, NULL, NULL);
		*heard = recv(c, bytes, sizeof(bytes), 0);
		close(c);
		kill(pid, SIGKILL);
		result = NULL;
	} else {
		json_decref(receive(ends[0])); /* it cannot connect */
		assert_int_equal(pair_send_new(ends[0], json_pack("{s:s}", "error", "x"), LONG_MS),
				 0);
		result = receive(ends[0]);
		assert_int_equal(poll(&pfd, 1, 0), 0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(listener);
	return result;
}

static void test_handles_of_others(void **state)
{
	static struct proved proved;
	struct sockaddr_storage own = parse("127.0.0.1", 0), victim = parse("127.0.0.2", 0);
	json_t *result;
	ssize_t heard;

	(void)state;
	proved_add(&proved, &own);
	result = attack(&proved, &heard);
	if (!strstr(member_text(result, "error"),
		    "; this host does not connect to 127.0.0.2 port "))
		fail_msg("%s", member_text(result, "error"));
	json_decref(result);
	/* What the test would see otherwise. */
	proved_add(&proved, &victim);
	json_decref(attack(&proved, &heard));
	assert_true(heard > 64);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_confined),
		cmocka_unit_test(test_handles_of_others),
	};

	plugin = argc > 1 ? argv[1] : "libnccl-net.so";
	setenv("NCCL_SOCKET_IFNAME", "lo", 1);
	setenv("ANYNET_CONNECT_TIMEOUT", "1s", 1);
	unsetenv("ANYNET_PORT_RANGE");
	alarm(280);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
