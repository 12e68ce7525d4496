/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of all commands; see document.h. */
#include "document.h"

#include "memory.h"
#include "text.h"

void document_print(const char *command, json_t *members, FILE *out)
{
	json_t *all = json_pack("{s:s, s:i, s:s}", "anynet", ANYNET_VERSION, "schema",
				DOCUMENT_SCHEMA, "command", command);

	if (!all || !members || json_object_update_missing(all, members))
		memory_failed();
	json_dumpf(all, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	fputc('\n', out);
	json_decref(members);
	json_decref(all);
}

json_t *document_text(const char *text)
{
	return json_string(text_printable(text));
}
