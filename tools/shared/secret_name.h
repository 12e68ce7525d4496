/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables have values that no output may contain. */
#ifndef TOOLS_SECRET_NAME_H
#define TOOLS_SECRET_NAME_H

#include <stdbool.h>

/* True if the name is or resembles that of a secret. NCCL_IB_PKEY is none. */
bool is_secret_name(const char *name);

#endif
