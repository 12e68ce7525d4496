/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the secret; see secret.h. */
#include "wire/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "base/libc_text.h"

static struct {
	size_t bytes; /* 0 = none, or not usable */
	char problem[640];
	/* One byte more than a secret and its newline may have tells a longer file. */
	uint8_t key[SECRET_MAX_BYTES + 2];
} secret;

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

/* The whole file, or its first sizeof(secret.key) bytes. */
static ssize_t read_all(int fd)
{
	size_t got = 0;

	while (got < sizeof(secret.key)) {
		ssize_t n = read(fd, secret.key + got, sizeof(secret.key) - got);

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

/* Fill secret.key from an open file. Bytes of the secret, or 0 with the reason in `why`. */
static size_t take_secret(int fd, char *why, size_t why_bytes)
{
	struct stat st;
	ssize_t got;

	if (fstat(fd, &st)) {
		snprintf(why, why_bytes, "cannot be examined: %s", error_text(errno));
		return 0;
	}
	if (!is_private(&st, why, why_bytes))
		return 0;
	got = read_all(fd);
	if (got < 0) {
		snprintf(why, why_bytes, "cannot be read: %s", error_text((int)-got));
		return 0;
	}
	if (got && secret.key[got - 1] == '\n')
		got--;
	if (got >= SECRET_MIN_BYTES && got <= SECRET_MAX_BYTES)
		return (size_t)got;
	snprintf(why, why_bytes, "holds %s%zd bytes; a secret has %d to %d",
		 got > SECRET_MAX_BYTES ? "at least " : "", got, SECRET_MIN_BYTES,
		 SECRET_MAX_BYTES);
	return 0;
}

static size_t read_secret(const char *file, char *why, size_t why_bytes)
{
	/* Without O_NONBLOCK a FIFO would keep us. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t bytes;

	if (fd < 0) {
		snprintf(why, why_bytes, "cannot be opened: %s", error_text(errno));
		return 0;
	}
	bytes = take_secret(fd, why, why_bytes);
	close(fd);
	if (bytes && hmac_open(hmac_library_names, why, why_bytes))
		bytes = 0;
	return bytes;
}

void secret_start(const char *file)
{
	char why[sizeof(secret.problem) - 300];

	secret.bytes = 0;
	secret.problem[0] = 0;
	if (!*file)
		return;
	secret.bytes = read_secret(file, why, sizeof(why));
	if (secret.bytes)
		return;
	explicit_bzero(secret.key, sizeof(secret.key));
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
