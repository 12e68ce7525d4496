/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of ANYNET_SECRET_FILE. Read once, by anynet_net_start; read-only afterwards. */
#ifndef ANYNET_SECRET_H
#define ANYNET_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/hmac.h"

#define SECRET_MIN_BYTES 16
#define SECRET_MAX_BYTES 4096

/* Read the secret; "" = there is to be none. `file` stays as it is. Waits 10 s for the disk. One WARN that names file and reason if it cannot be used. */
void secret_start(const char *file);

/* Why nothing may connect: there is to be a secret, but it cannot be used. NULL = nothing is wrong. */
const char *secret_problem(void);

/* Is there a secret that can be used? */
bool secret_known(void);

/* HMAC-SHA256 of `data` with the secret as key. 0 or -EIO. Any thread. */
int secret_mac(const void *data, size_t bytes, uint8_t mac[HMAC_BYTES]);

#endif
