/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of all commands; see document.h. */
#include "document.h"

#include "memory.h"
#include "text.h"

#define SCHEMA 1

json_t *document_new(const char *command, json_t *members)
{
	json_t *all = json_pack("{s:s, s:i, s:s}", "anynet", ANYNET_VERSION, "schema", SCHEMA,
				"command", command);

	if (!all || !members || json_object_update_missing(all, members))
		memory_failed();
	json_decref(members);
	return all;
}

void document_print(const char *command, json_t *members, FILE *out)
{
	json_t *all = document_new(command, members);

	json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
	json_decref(all);
}

json_t *document_text(const char *text)
{
	return json_string(text_printable(text));
}
