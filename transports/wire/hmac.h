/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 by libcrypto. It is opened at run time, because only processes with a secret need it. */
#ifndef ANYNET_HMAC_H
#define ANYNET_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define HMAC_BYTES 32

/* The file names of libcrypto in the order in which to try them, NULL-terminated. */
extern const char *const hmac_library_names[];

/* Open the first library of `names` that passes a test of HMAC-SHA256; it stays loaded. 0, or -ENOENT with the reasons
 * in `why`. Must not run concurrently with other calls of this file. */
int hmac_open(const char *const *names, char *why, size_t why_bytes);

/* HMAC-SHA256 of `data`. 0, or -EIO: no library is open, it failed, or the process is exiting. Any thread. */
int hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
		uint8_t mac[HMAC_BYTES]);

#endif
