/* SPDX-License-Identifier: Apache-2.0 */
/* The control connection: greeting and frames; see wire.h. */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/shared/clean.h"

static const char magic[8] = { 'a', 'n', 'y', 'n', 'e', 't', 'P', 'R' };

/* Waits until the socket is ready; -ETIMEDOUT if `end` has passed. */
static int wait_for(int fd, short events, uint64_t end)
{
	for (;;) {
		struct pollfd pfd = { .fd = fd, .events = events };
		int left = ms_until(end), ret;

		if (!left)
			return -ETIMEDOUT;
		ret = poll(&pfd, 1, left);
		if (ret > 0)
			return 0;
		if (ret < 0 && errno != EINTR)
			return -errno;
	}
}

static int failure(void)
{
	return errno == EPIPE ? -ECONNRESET : -errno;
}

int pair_write(int fd, const void *data, size_t bytes, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	const char *at = data;

	while (bytes) {
		ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		int ret;

		if (n >= 0) {
			at += n;
			bytes -= (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return failure();
		ret = wait_for(fd, POLLOUT, end);
		if (ret)
			return ret;
	}
	return 0;
}

/* Reads at least one byte. Returns the number of bytes, or a negative errno. */
static ssize_t read_some(int fd, void *data, size_t bytes, uint64_t end)
{
	for (;;) {
		ssize_t n = recv(fd, data, bytes, MSG_DONTWAIT);
		int ret;

		if (n > 0)
			return n;
		if (!n)
			return -ECONNRESET;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return failure();
		ret = wait_for(fd, POLLIN, end);
		if (ret)
			return ret;
	}
}

int pair_read(int fd, void *data, size_t bytes, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	char *at = data;

	while (bytes) {
		ssize_t n = read_some(fd, at, bytes, end);

		if (n < 0)
			return (int)n;
		at += n;
		bytes -= (size_t)n;
	}
	return 0;
}

int pair_speak(int fd, int ms)
{
	char mine[PAIR_GREETING];
	uint32_t number = htonl(PAIR_VERSION);

	memcpy(mine, magic, sizeof(magic));
	memcpy(mine + sizeof(magic), &number, sizeof(number));
	return pair_write(fd, mine, sizeof(mine), ms);
}

int pair_hear(int fd, uint32_t *version, char *opening, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	char theirs[PAIR_OPENING_MAX];
	uint32_t number;
	size_t got = 0;

	*version = 0;
	if (opening)
		*opening = '\0';
	while (got < PAIR_GREETING) {
		ssize_t n = read_some(fd, theirs + got, PAIR_GREETING - got, end);

		if (n < 0)
			return got ? -EPROTO : (int)n;
		got += (size_t)n;
		if (!memcmp(theirs, magic, got < sizeof(magic) ? got : sizeof(magic)))
			continue;
		n = recv(fd, theirs + got, sizeof(theirs) - got, MSG_DONTWAIT);
		if (n > 0)
			got += (size_t)n;
		if (opening)
			clean_ascii(opening, theirs, got);
		return -EPROTO;
	}
	memcpy(&number, theirs + sizeof(magic), sizeof(number));
	*version = ntohl(number);
	return 0;
}

int pair_greet(int fd, bool speaks_first, uint32_t *version, char *opening, int ms)
{
	int ret = speaks_first ? pair_speak(fd, ms) : 0;

	*version = 0;
	if (opening)
		*opening = '\0';
	if (!ret)
		ret = pair_hear(fd, version, opening, ms);
	if (!ret && !speaks_first)
		ret = pair_speak(fd, ms);
	if (ret)
		return ret;
	return *version == PAIR_VERSION ? 0 : -EPROTONOSUPPORT;
}

int pair_greet_after_noise(int fd, uint32_t *version, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	size_t matched = 0;
	uint32_t number;
	char c;

	*version = 0;
	for (size_t read = 0; matched < sizeof(magic); read++) {
		ssize_t n = read < PAIR_NOISE_MAX ? read_some(fd, &c, 1, end) : -EPROTO;

		if (n < 0)
			return (int)n;
		/* The first letter of the magic does not occur in it again, so a mismatch needs no
		 * backtracking. */
		matched = c == magic[matched] ? matched + 1 : c == magic[0];
	}
	if (pair_read(fd, &number, sizeof(number), ms_until(end)))
		return -EPROTO;
	*version = ntohl(number);
	if (pair_speak(fd, ms))
		return -ECONNRESET;
	return *version == PAIR_VERSION ? 0 : -EPROTONOSUPPORT;
}

int pair_send(int fd, const json_t *message, int ms)
{
	size_t bytes = json_dumpb(message, NULL, 0, JSON_COMPACT);
	uint32_t length = htonl((uint32_t)bytes);
	char *frame;
	int ret;

	if (!bytes || bytes > PAIR_FRAME_MAX)
		return -EMSGSIZE;
	frame = malloc(sizeof(length) + bytes);
	if (!frame)
		return -ENOMEM;
	memcpy(frame, &length, sizeof(length));
	json_dumpb(message, frame + sizeof(length), bytes, JSON_COMPACT);
	ret = pair_write(fd, frame, sizeof(length) + bytes, ms);
	free(frame);
	return ret;
}

int pair_send_new(int fd, json_t *message, int ms)
{
	int ret = message ? pair_send(fd, message, ms) : -ENOMEM;

	json_decref(message);
	return ret;
}

int pair_recv(int fd, json_t **message, int ms)
{
	uint64_t end = now_ms() + (uint64_t)ms;
	uint32_t length;
	char *text;
	int ret = pair_read(fd, &length, sizeof(length), ms);

	*message = NULL;
	if (ret)
		return ret;
	length = ntohl(length);
	if (!length || length > PAIR_FRAME_MAX)
		return -EPROTO;
	text = malloc(length);
	if (!text)
		return -ENOMEM;
	ret = pair_read(fd, text, length, ms_until(end));
	if (!ret)
		*message = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	if (ret)
		return ret;
	if (!json_is_object(*message)) {
		json_decref(*message);
		*message = NULL;
		return -EPROTO;
	}
	return 0;
}
