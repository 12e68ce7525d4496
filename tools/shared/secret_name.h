/* SPDX-License-Identifier: Apache-2.0 */
/* Which variables have values that no output may contain. */
#ifndef TOOLS_SECRET_NAME_H
#define TOOLS_SECRET_NAME_H

#include <stdbool.h>

/* True if the name is that of a secret, or sounds like it, also with an error of typing. */
bool is_secret_name(const char *name);

#endif
