/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server of `anynet export`, in a child, with slow, many and hostile clients. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tools/export/http_request.h"
#include "tools/export/http_server.h"

#define PAGE       "metric 1\n"
#define LARGE      (16 << 20) /* more than socket buffers hold */
#define PATIENCE_S 60
#define LONG_MS    3600000 /* longer than any test takes */

static volatile sig_atomic_t stopped;
static size_t page_bytes;
static unsigned read_ms, write_ms, fresh_ms;
static struct shared {
	_Atomic unsigned renders;
} * shared;

static pid_t server;
static struct sockaddr_in address;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static char *render(void *arg, size_t *bytes)
{
	char *text = malloc(page_bytes + 1);

	(void)arg;
	memset(text, 'x', page_bytes);
	memcpy(text, PAGE, strlen(PAGE));
	shared->renders++;
	if (page_bytes > 2 * strlen(PAGE))
		text[strlen(PAGE)] = (char)('0' + shared->renders);
	*bytes = page_bytes;
	return text;
}

static void serve(int fd)
{
	struct sigaction action = { .sa_handler = stop };
	sigset_t term, open;
	struct http_server http = {
		.fd = fd,
		.type = "text/plain",
		.render = render,
		.read_ms = read_ms,
		.write_ms = write_ms,
		.fresh_ms = fresh_ms,
		.stop = &stopped,
		.mask = &open,
	};

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, &open);
	sigdelset(&open, SIGTERM);
	sigaction(SIGTERM, &action, NULL);
	exit(http_server_run(&http) ? 1 : 0);
}

static void start(size_t bytes)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof(address);

	page_bytes = bytes;
	shared->renders = 0;
	address = (struct sockaddr_in){ .sin_family = AF_INET,
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	assert_int_equal(listen(fd, 128), 0);
	server = fork();
	assert_true(server >= 0);
	if (!server)
		serve(fd);
	close(fd);
}

static int setup(void **state)
{
	(void)state;
	read_ms = write_ms = fresh_ms = LONG_MS;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED;
}

/* The server must exit with status 0 when it is asked to end. */
static int teardown(void **state)
{
	int status;

	(void)state;
	if (server > 0 && (kill(server, SIGTERM) || waitpid(server, &status, 0) != server ||
			   !WIFEXITED(status) || WEXITSTATUS(status)))
		return -1;
	server = 0;
	return munmap(shared, sizeof(*shared));
}

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = PATIENCE_S };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads until the peer closes, keeping the first `room` bytes; then closes. */
static size_t hear(int fd, char *text, size_t room)
{
	static char buf[1 << 16];
	size_t bytes = 0;
	ssize_t n;

	memset(text, 0, room);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (ssize_t i = 0; i < n && bytes + (size_t)i < room - 1; i++)
			text[bytes + (size_t)i] = buf[i];
		bytes += (size_t)n;
	}
	assert_int_equal(n, 0);
	close(fd);
	return bytes;
}

static void answers(const char *request, const char *status, const char *rest)
{
	char text[1024];
	int fd = dial();

	say(fd, request);
	hear(fd, text, sizeof(text));
	if (strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, status, strlen(status)) != 0 ||
	    !strstr(text, rest))
		fail_msg("'%s' is answered with '%s'", request, text);
}

static void test_requests_get_their_answers(void **state)
{
	(void)state;
	start(strlen(PAGE));
	answers("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "\r\n\r\n" PAGE);
	answers("GET /metrics HTTP/1.0\r\n\r\n", "200 OK", "Content-Length: 9\r\n");
	answers("GET /metrics?a=b HTTP/1.1\n\n", "200 OK", "\r\n\r\n" PAGE);
	answers("HEAD /metrics HTTP/1.1\r\n\r\n", "200 OK", "Content-Length: 9\r\n");
	answers("GET / HTTP/1.1\r\n\r\n", "404 Not Found", "\r\n\r\nNot Found\n");
	answers("GET /metricsx HTTP/1.1\r\n\r\n", "404", "");
	answers("POST /metrics HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405",
		"Allow: GET, HEAD\r\n");
	answers("GET /metrics HTTP/2.0\r\n\r\n", "505", "");
	answers("GET /metrics\r\n\r\n", "400", "");
	answers("\r\n\r\n", "400", "");
	answers("\x16\x03\x01 what\n\n", "400", "");
}

static void test_a_head_has_no_body(void **state)
{
	char text[512];
	int fd;

	(void)state;
	start(strlen(PAGE));
	fd = dial();
	say(fd, "HEAD /metrics HTTP/1.1\r\n\r\n");
	hear(fd, text, sizeof(text));
	assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
	fd = dial();
	say(fd, "HEAD /else HTTP/1.1\r\n\r\n");
	hear(fd, text, sizeof(text));
	assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
}

static void test_a_request_may_come_in_pieces(void **state)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	char text[512];
	int fd;

	(void)state;
	start(strlen(PAGE));
	fd = dial();
	for (size_t i = 0; i < strlen(request); i++)
		assert_int_equal(send(fd, request + i, 1, MSG_NOSIGNAL), 1);
	hear(fd, text, sizeof(text));
	assert_non_null(strstr(text, PAGE));
}

static void test_endless_head_is_rejected(void **state)
{
	char large[HTTP_REQUEST_BYTES], text[512];
	int fd;

	(void)state;
	start(strlen(PAGE));
	memset(large, 'x', sizeof(large));
	memcpy(large, "GET /metrics HTTP/1.1\r\n", strlen("GET /metrics HTTP/1.1\r\n"));
	fd = dial();
	assert_int_equal(send(fd, large, sizeof(large), MSG_NOSIGNAL), sizeof(large));
	say(fd, "and more of it"); /* not read, and does not cancel the answer */
	hear(fd, text, sizeof(text));
	assert_non_null(strstr(text, "HTTP/1.1 431 "));
}

static void test_slow_clients_delay_no_other(void **state)
{
	static const int small = 1 << 16;
	char text[512];
	int silent, deaf;

	(void)state;
	start(LARGE);
	silent = dial();
	say(silent, "GET /metr");
	deaf = dial();
	setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	say(deaf, "GET /metrics HTTP/1.1\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		int fd = dial();

		say(fd, "GET /metrics HTTP/1.1\r\n\r\n");
		assert_true(hear(fd, text, sizeof(text)) > LARGE);
		assert_non_null(strstr(text, "\r\n\r\n" PAGE));
	}
	/* A slow request is still answered. */
	say(silent, "ics HTTP/1.1\r\n\r\n");
	assert_true(hear(silent, text, sizeof(text)) > LARGE);
	assert_true(hear(deaf, text, sizeof(text)) > LARGE);
	assert_non_null(strstr(text, "200 OK"));
}

static void test_oldest_client_is_closed_at_the_limit(void **state)
{
	int fds[HTTP_CLIENTS + 1];
	char text[512];

	(void)state;
	start(strlen(PAGE));
	for (int i = 0; i < HTTP_CLIENTS; i++)
		fds[i] = dial();
	answers("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", PAGE);
	assert_int_equal(hear(fds[0], text, sizeof(text)), 0); /* closed by the server */
	for (int i = 1; i < HTTP_CLIENTS; i++) {
		say(fds[i], "GET /metrics HTTP/1.1\r\n\r\n");
		hear(fds[i], text, sizeof(text));
		assert_non_null(strstr(text, PAGE));
	}
}

static void test_silent_clients_are_closed(void **state)
{
	char text[512];
	int silent, half;

	(void)state;
	read_ms = 50;
	start(strlen(PAGE));
	silent = dial();
	half = dial();
	say(half, "GET /");
	assert_int_equal(hear(silent, text, sizeof(text)), 0);
	assert_int_equal(hear(half, text, sizeof(text)), 0);
}

static void test_clients_that_do_not_read_are_closed(void **state)
{
	char text[512];
	int deaf;

	(void)state;
	write_ms = 0;
	start(LARGE);
	deaf = dial();
	say(deaf, "GET /metrics HTTP/1.1\r\n\r\n");
	assert_true(hear(deaf, text, sizeof(text)) < LARGE);
}

/* Each client gets a separate page: the oldest connections are closed to limit the memory. */
static void test_memory_for_pages_is_limited(void **state)
{
	int fds[HTTP_CLIENTS];
	char text[512];
	size_t whole = 0;

	(void)state;
	fresh_ms = 0;
	start(LARGE);
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		fds[i] = dial();
		say(fds[i], "GET /metrics HTTP/1.1\r\n\r\n");
		recv(fds[i], text, sizeof(text), MSG_PEEK); /* its answer has started */
	}
	assert_int_equal(shared->renders, HTTP_CLIENTS);
	for (int i = 0; i < HTTP_CLIENTS; i++)
		whole += hear(fds[i], text, sizeof(text)) > LARGE;
	assert_in_range(whole, 1, 8);
}

/* Two clients share a page: it is freed with the last one. */
static void test_memory_for_shared_pages_is_limited(void **state)
{
	bool is_whole[HTTP_CLIENTS + 1] = { false };
	const struct timespec stale = { .tv_nsec = 60000000 };
	int fds[HTTP_CLIENTS];
	char text[512];
	int pages = 0;

	(void)state;
	fresh_ms = 50;
	start(LARGE);
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		if (i % 2 == 0)
			nanosleep(&stale, NULL);
		fds[i] = dial();
		say(fds[i], "GET /metrics HTTP/1.1\r\n\r\n");
		recv(fds[i], text, sizeof(text), MSG_PEEK);
	}
	for (int i = 0; i < HTTP_CLIENTS; i++) {
		bool is_all = hear(fds[i], text, sizeof(text)) > LARGE;
		const char *page = strstr(text, PAGE);

		if (!is_all || !page)
			continue;
		pages += !is_whole[page[strlen(PAGE)] - '0'];
		is_whole[page[strlen(PAGE)] - '0'] = true;
	}
	assert_in_range(pages, 1, 8);
}

static void test_disconnected_clients(void **state)
{
	static const struct linger hard = { .l_onoff = 1 };

	(void)state;
	start(LARGE);
	for (int i = 0; i < 2 * HTTP_CLIENTS; i++) {
		int fd = dial();

		if (i % 2)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
		say(fd, i % 3 ? "GET /metrics HTTP/1.1\r\n\r\n" : "GET");
		close(fd);
	}
	answers("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", PAGE);
}

static void test_clients_share_a_page(void **state)
{
	(void)state;
	start(strlen(PAGE));
	for (int i = 0; i < 200; i++)
		answers("GET /metrics HTTP/1.1\r\n\r\n", "200 OK", PAGE);
	assert_int_equal(shared->renders, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_requests_get_their_answers),
		TEST(test_a_head_has_no_body),
		TEST(test_a_request_may_come_in_pieces),
		TEST(test_endless_head_is_rejected),
		TEST(test_slow_clients_delay_no_other),
		TEST(test_oldest_client_is_closed_at_the_limit),
		TEST(test_silent_clients_are_closed),
		TEST(test_clients_that_do_not_read_are_closed),
		TEST(test_memory_for_pages_is_limited),
		TEST(test_memory_for_shared_pages_is_limited),
		TEST(test_disconnected_clients),
		TEST(test_clients_share_a_page),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
