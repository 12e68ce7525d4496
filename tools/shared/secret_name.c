/* SPDX-License-Identifier: Apache-2.0 */
/* Names of secrets; see secret_name.h. */
#include "secret_name.h"

#include <string.h>
#include <strings.h>

#include <nccl_net/util.h>

bool is_secret_name(const char *name)
{
	static const char *const words[] = { "SECRET", "TOKEN",  "PASS", "CRED",
					     "AUTH",   "COOKIE", "PSK" };
	/* A partition key of InfiniBand is a number that every host of the partition knows. */
	bool pkey =
		!strncasecmp(name, "NCCL_IB_PKEY", 12) || !strncasecmp(name, "ANYNET_IB_PKEY", 14);

	if (!pkey && strcasestr(name, "KEY"))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}
