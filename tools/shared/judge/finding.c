/* SPDX-License-Identifier: Apache-2.0 */
/* Findings; see finding.h. */
#include "finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/shared/clean.h"
#include "tools/shared/member.h"

void judge_add(json_t *list, const struct advice *advice, const char *fmt, ...)
{
	char what[FINDING_MAX], text[FINDING_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	/* vsnprintf may cut a UTF-8 character in half, and parts of the text come from the peer. */
	clean(text, sizeof(text), what, strlen(what));
	json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s}", "level", advice->level,
					      "id", advice->id, "finding", text, "why", advice->why,
					      "fix", advice->fix));
}

void finding_concerns(json_t *list, json_t *hosts)
{
	size_t count = json_array_size(list);

	json_object_set_new(json_array_get(list, count - 1), "hosts", hosts);
}

static void append_level(json_t *to, const json_t *from, const char *level)
{
	json_t *finding;
	size_t i;

	json_array_foreach (from, i, finding) {
		if (!strcmp(member_text(finding, "level"), level))
			json_array_append(to, finding);
	}
}

json_t *findings_sorted(json_t *list)
{
	json_t *sorted = json_array();

	append_level(sorted, list, "error");
	append_level(sorted, list, "warning");
	append_level(sorted, list, "note");
	json_decref(list);
	return sorted;
}

int findings_status(const json_t *list)
{
	const json_t *finding;
	int status = 0;
	size_t i;

	json_array_foreach (list, i, finding) {
		if (!strcmp(member_text(finding, "level"), "error"))
			return 2;
		if (!strcmp(member_text(finding, "level"), "warning"))
			status = 1;
	}
	return status;
}
