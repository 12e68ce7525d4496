/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of ANYNET_SECRET_FILE. Read once by anynet_net_start, read-only afterwards. */
#ifndef ANYNET_SECRET_H
#define ANYNET_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/hmac.h"

#define SECRET_MIN_BYTES 16
#define SECRET_MAX_BYTES 4096

/* Read the secret; "" = no secret. Waits for the file system, for up to 10 s; `file` must stay valid, because a blocked
 * read continues to use it. If the secret cannot be used, logs one WARN that names file and reason. */
void secret_start(const char *file);

/* Why the configured secret cannot be used; no connection may be made then. NULL = no problem. */
const char *secret_problem(void);

/* Is there a usable secret? */
bool secret_known(void);

/* HMAC-SHA256 of `data` with the secret as key. 0 or -EIO. Any thread. */
int secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);

#endif
