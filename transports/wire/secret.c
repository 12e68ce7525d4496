/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the secret; see secret.h. */
#include "wire/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"
#include "base/thread.h"

#define READ_MS 10000 /* a network file system may never respond */

static struct {
	size_t bytes; /* 0 = no secret, or not usable */
	char problem[640];
	uint8_t key[SECRET_MAX_BYTES];
} secret;

/* The file being read. */
struct reading {
	const char *file;
	_Atomic bool finished; /* the reader, or the thread that waited for it */
	size_t bytes; /* of the secret; 0 = not usable, for the reason in `why` */
	char why[sizeof(secret.problem) - 300];
	/* A secret, its newline, and one byte more to detect a longer file. */
	uint8_t key[SECRET_MAX_BYTES + 2];
};

static bool is_private(const struct stat *st, char *why, size_t why_bytes)
{
	if (!S_ISREG(st->st_mode))
		snprintf(why, why_bytes, "is not a regular file");
	else if (st->st_uid != geteuid() && st->st_uid)
		snprintf(why, why_bytes, "belongs to user %u; it must belong to user %u or root",
			 st->st_uid, geteuid());
	else if (st->st_mode & (S_IRWXG | S_IRWXO))
		snprintf(why, why_bytes,
			 "has mode %04o: other users have access; chmod 600 it",
			 st->st_mode & 07777);
	else
		return true;
	return false;
}

/* Read the whole file, or its first sizeof(reading->key) bytes. Returns the number of bytes or -errno. */
static ssize_t read_all(int fd, struct reading *reading)
{
	size_t got = 0;

	while (got < sizeof(reading->key)) {
		ssize_t n = read(fd, reading->key + got, sizeof(reading->key) - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

static void take_secret(int fd, struct reading *reading)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st)) {
		snprintf(reading->why, sizeof(reading->why), "cannot be examined: %s", error_text(errno));
		return;
	}
	if (!is_private(&st, reading->why, sizeof(reading->why)))
		return;
	got = read_all(fd, reading);
	if (got < 0) {
		snprintf(reading->why, sizeof(reading->why), "cannot be read: %s", error_text((int)-got));
		return;
	}
	if (got && reading->key[got - 1] == '\n')
		got--;
	if (got >= SECRET_MIN_BYTES && got <= SECRET_MAX_BYTES)
		reading->bytes = (size_t)got;
	else
		snprintf(reading->why, sizeof(reading->why), "holds %s%zd bytes; a secret has %d to %d",
			 got > SECRET_MAX_BYTES ? "at least " : "", got, SECRET_MIN_BYTES,
			 SECRET_MAX_BYTES);
}

static void *read_secret(void *arg)
{
	struct reading *reading = arg;
	/* O_NONBLOCK: opening a FIFO would block otherwise. */
	int fd = open(reading->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		snprintf(reading->why, sizeof(reading->why), "cannot be opened: %s", error_text(errno));
		return arg;
	}
	take_secret(fd, reading);
	close(fd);
	return arg;
}

static void forget(struct reading *reading)
{
	explicit_bzero(reading, sizeof(*reading));
	free(reading);
}

/* The thread that finishes second, reader or waiting thread, frees `reading`. */
static void *read_aside(void *arg)
{
	struct reading *reading = arg;

	read_secret(reading);
	if (atomic_exchange(&reading->finished, true))
		forget(reading);
	return NULL;
}

/* Read in a separate thread. False: it is still blocked, possibly for ever, and `reading` belongs to it. */
static bool read_within(struct reading *reading, uint64_t ms)
{
	pthread_t thread;

	if (thread_start(&thread, "anynet-secret", read_aside, reading)) {
		read_secret(reading);
		return true;
	}
	if (thread_join_within(thread, ms))
		return true;
	pthread_detach(thread);
	return atomic_exchange(&reading->finished, true);
}

static void take(const struct reading *reading, char *why, size_t why_bytes)
{
	if (!reading->bytes) {
		snprintf(why, why_bytes, "%s", reading->why);
	} else if (!hmac_open(hmac_library_names, why, why_bytes)) {
		memcpy(secret.key, reading->key, reading->bytes);
		secret.bytes = reading->bytes;
	}
}

void secret_start(const char *file)
{
	struct reading *reading;
	char why[sizeof(reading->why)] = "out of memory";

	secret.bytes = 0;
	secret.problem[0] = 0;
	if (!*file)
		return;
	reading = calloc(1, sizeof(*reading));
	if (reading) {
		reading->file = file;
		if (read_within(reading, READ_MS)) {
			take(reading, why, sizeof(why));
			forget(reading);
		} else {
			snprintf(why, sizeof(why), "not read within %d s: its file system does not answer",
				 READ_MS / 1000);
		}
	}
	if (secret.bytes)
		return;
	snprintf(secret.problem, sizeof(secret.problem), "ANYNET_SECRET_FILE %s: %s", file, why);
	anynet_warn("%s; all connections are refused", secret.problem);
}

const char *secret_problem(void)
{
	return secret.problem[0] ? secret.problem : NULL;
}

bool secret_known(void)
{
	return secret.bytes;
}

int secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES])
{
	return secret.bytes ? hmac_sha256(secret.key, secret.bytes, data, bytes, mac) : -EIO;
}
