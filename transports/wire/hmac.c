/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256; see hmac.h. */
#include "wire/hmac.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "base/fd.h"
#include "base/library.h"

const char *const hmac_library_names[] = { "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so",
					   NULL };

/* These two functions have had the same prototypes since OpenSSL 0.9.7, and have them in its forks. */
struct library {
	void *library;
	const void *(*sha256)(void);
	unsigned char *(*hmac)(const void *digest, const void *key, int key_bytes,
			       const unsigned char *data, size_t bytes, unsigned char *mac,
			       unsigned *mac_bytes);
};

static const struct library_function functions[] = {
	{ .name = "EVP_sha256", .offset = offsetof(struct library, sha256) },
	{ .name = "HMAC", .offset = offsetof(struct library, hmac) },
};

/* libcrypto cleans up when the process exits, while other threads may still make connections. So it is used only with
 * the lock, and not after exit has begun. */
static struct {
	pthread_mutex_t lock;
	struct library library;
	bool open, exits_watched;
	unsigned forks; /* fd_forks when the library was opened */
} crypto = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int compute(const struct library *lib, const void *key, size_t key_bytes, const void *data,
		   size_t bytes, uint8_t mac[HMAC_BYTES])
{
	const void *digest = lib->sha256();
	unsigned mac_bytes = 0;

	if (!digest || key_bytes > INT_MAX ||
	    !lib->hmac(digest, key, (int)key_bytes, data, bytes, mac, &mac_bytes) ||
	    mac_bytes != HMAC_BYTES)
		return -EIO;
	return 0;
}

/* RFC 4231, test case 1. Case 2 has a key of 4 bytes; OpenSSL's FIPS provider may refuse keys of less than 14. */
static bool computes_right(const struct library *lib)
{
	static const char data[] = "Hi There";
	static const uint8_t wanted[HMAC_BYTES] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53, 0x5c, 0xa8, 0xaf,
		0xce, 0xaf, 0x0b, 0xf1, 0x2b, 0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83,
		0x3d, 0xa7, 0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	uint8_t key[20], mac[HMAC_BYTES];

	memset(key, 0x0b, sizeof(key));
	return !compute(lib, key, sizeof(key), data, strlen(data), mac) &&
	       !memcmp(mac, wanted, sizeof(mac));
}

/* 0, or -errno with the reason in `why`. */
static int open_library(const char *name, struct library *lib, char *why, size_t why_bytes)
{
	int ret = library_open(name, functions, ARRAY_SIZE(functions), lib, why, why_bytes);

	if (ret == -ENOSYS)
		snprintf(why, why_bytes, "it has no HMAC or no EVP_sha256");
	if (ret || computes_right(lib))
		return ret;
	dlclose(lib->library);
	snprintf(why, why_bytes, "it does not compute HMAC-SHA256");
	return -ENOSYS;
}

static void stop_at_exit(void)
{
	if (crypto.forks != fd_forks())
		return;
	pthread_mutex_lock(&crypto.lock);
	crypto.open = false;
	pthread_mutex_unlock(&crypto.lock);
}

static void opened(void)
{
	/* Exit handlers run in reverse order. libcrypto has registered its own by now, so this one runs first. */
	if (!crypto.exits_watched)
		atexit(stop_at_exit);
	crypto.exits_watched = true;
	crypto.open = true;
	crypto.forks = fd_forks();
}

int hmac_open(const char *const *names, char *why, size_t why_bytes)
{
	size_t used = (size_t)snprintf(why, why_bytes, "no usable libcrypto (OpenSSL)");

	crypto.open = false;
	for (; *names; names++) {
		char reason[256];

		if (!open_library(*names, &crypto.library, reason, sizeof(reason))) {
			opened();
			return 0;
		}
		if (used < why_bytes)
			used += (size_t)snprintf(why + used, why_bytes - used, "; %s: %s", *names,
						 reason);
	}
	return -ENOENT;
}

int hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
		uint8_t mac[HMAC_BYTES])
{
	int ret = -EIO;

	pthread_mutex_lock(&crypto.lock);
	if (crypto.open)
		ret = compute(&crypto.library, key, key_bytes, data, bytes, mac);
	pthread_mutex_unlock(&crypto.lock);
	return ret;
}
