/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA256 by libcrypto, which is opened at run time: only who has a secret needs it. */
#ifndef ANYNET_HMAC_H
#define ANYNET_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define HMAC_BYTES 32

/* The names under which libcrypto is looked for, in this order; NULL ends them. */
extern const char *const hmac_library_names[];

/* Open the first library of `names` that computes HMAC-SHA256 as it should; it stays loaded. 0, or
 * -ENOENT with the reason in `why`. Not beside other calls of this file. */
int hmac_open(const char *const *names, char *why, size_t why_bytes);

/* HMAC-SHA256 of `data`. 0, or -EIO: no library is open, it failed, or the process is exiting. Any
 * thread. */
int hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
		uint8_t mac[HMAC_BYTES]);

#endif
