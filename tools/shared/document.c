/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of all commands; see document.h. */
#include "document.h"

#include <errno.h>

int document_print(const char *command, json_t *members, FILE *out)
{
	json_t *all = json_pack("{s:s, s:i, s:s}", "anynet", ANYNET_VERSION, "schema",
				DOCUMENT_SCHEMA, "command", command);
	int ret = all && members && !json_object_update_missing(all, members) ? 0 : -ENOMEM;

	if (!ret && json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)))
		ret = -EIO;
	if (!ret && fputc('\n', out) == EOF)
		ret = -EIO;
	json_decref(members);
	json_decref(all);
	return ret;
}
