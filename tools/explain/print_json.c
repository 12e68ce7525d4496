/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON. */
#include <jansson.h>
#include <string.h>

#include "print.h"
#include "tools/shared/document.h"
#include "tools/shared/memory.h"

static json_t *place_json(const struct report *r, const struct place *place)
{
	return json_pack("{s:s, s:I}", "file", r->files[place->file].name, "line",
			 (json_int_t)place->line);
}

/* Adds "hosts" and "ranks" of the sources, as far as they are known. */
static void add_who(json_t *json, const struct report *r, const struct source_set *set)
{
	int *ranks = memory_get(r->sources.count * sizeof(*ranks));
	json_t *hosts = json_array(), *numbers = json_array(), *seen = json_object();
	size_t count = report_ranks(r, set, ranks);

	for (size_t i = 0; i < count; i++)
		json_array_append_new(numbers, json_integer(ranks[i]));
	for (unsigned i = 1; i < r->sources.count; i++) {
		const char *host = r->sources.list[i].host;

		if (!source_set_has(set, i) || !*host || json_object_get(seen, host))
			continue;
		json_object_set_new(seen, host, json_true());
		json_array_append_new(hosts, json_string(host));
	}
	json_decref(seen);
	json_object_set_new(json, "hosts", hosts);
	json_object_set_new(json, "ranks", numbers);
}

static json_t *values_json(const struct report *r, const struct finding *f)
{
	json_t *values = json_array();

	for (int i = 0; i < f->value_count; i++) {
		const struct value *v = &f->values[i];
		json_t *json = json_pack("{s:s, s:I, s:o}", "value", v->text, "count",
					 (json_int_t)v->count, "first", place_json(r, &v->first));

		add_who(json, r, &v->sources);
		json_array_append_new(values, json);
	}
	return values;
}

static json_t *list_json(const struct report *r, struct finding **list, size_t count);

static const char *level_of(const struct finding *f)
{
	return f->kind == RULE_ERROR || f->kind == RULE_FOLLOWS ? "error"
	       : f->kind == RULE_HARMLESS                       ? "note"
								: "warning";
}

/* The first line, with what is known of the process that wrote it. */
static json_t *first_json(const struct report *r, const struct finding *f)
{
	const struct source *source = &r->sources.list[f->first_source];
	json_t *first = place_json(r, &f->first);

	json_object_update_new(first,
			       json_pack("{s:s*, s:o*, s:o*}", "host",
					 *source->host ? source->host : NULL, "pid",
					 source->pid ? json_integer(source->pid) : NULL, "rank",
					 source->rank >= 0 ? json_integer(source->rank) : NULL));
	return first;
}

static json_t *finding_json(const struct report *r, const struct finding *f)
{
	bool failed = f->kind == RULE_ERROR || f->kind == RULE_FOLLOWS;
	json_t *json = json_pack("{s:s, s:s, s:s, s:i, s:s*, s:s, s:s, s:o, s:I}", "id",
				 f->rule->id, "level", level_of(f), "kind", rule_kind_text(f->kind),
				 "cause", f->rule->cause, "confidence",
				 failed ? report_confidence_text(f->confidence) : NULL, "finding",
				 f->title, "message", f->message, "first", first_json(r, f),
				 "count", (json_int_t)f->count);

	add_who(json, r, &f->sources);
	json_object_update_new(json,
			       json_pack("{s:s, s:s, s:s*, s:s*, s:o*, s:o}", "why", f->why, "fix",
					 f->fix, "versions", f->rule->versions, "see", f->rule->see,
					 "values", f->value_count ? values_json(r, f) : NULL,
					 "follows", list_json(r, f->follows, f->follow_count)));
	return json;
}

static json_t *list_json(const struct report *r, struct finding **list, size_t count)
{
	json_t *json = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(json, finding_json(r, list[i]));
	return json;
}

/* The RULE_DIFFER values on which all processes agree. */
static json_t *facts_json(const struct report *r)
{
	json_t *facts = json_object();

	for (size_t i = 0; i < r->finding_count; i++) {
		const struct finding *f = r->findings[i];

		if (f->kind == RULE_DIFFER && f->value_count == 1)
			json_object_set_new(facts, f->rule->id, json_string(f->values[0].text));
	}
	return facts;
}

static void append(json_t *all, json_t *list)
{
	json_array_extend(all, list);
	json_decref(list);
}

void print_json(const struct report *r, FILE *out)
{
	json_t *files = json_array(), *unread = json_array(), *findings = json_array();

	for (int i = 0; i < r->file_count; i++)
		json_array_append_new(files, json_string(r->files[i].name));
	for (size_t i = 0; i < r->unread_count; i++)
		json_array_append_new(unread, json_pack("{s:s, s:s}", "file", r->unread[i].name,
							"why", r->unread[i].why));
	append(findings, list_json(r, r->errors, r->error_count));
	append(findings, list_json(r, r->warnings, r->warning_count));
	append(findings, list_json(r, r->harmless, r->harmless_count));
	document_print("explain",
		       json_pack("{s:i, s:o, s:o, s:I, s:I, s:o, s:o}", "status", report_status(r),
				 "files", files, "unread", unread, "lines", (json_int_t)r->lines,
				 "bytes", (json_int_t)r->bytes, "facts", facts_json(r), "findings",
				 findings),
		       out);
}
