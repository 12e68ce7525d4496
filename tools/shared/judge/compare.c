/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of a value across hosts; see compare.h. */
#include "compare.h"

#include <stdbool.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/member.h"
#include "tools/shared/text.h"

#define VALUE_MAX 200 /* bytes of a value that are printed */
#define NAMED     6   /* hosts listed for a value */
#define VALUES    4   /* values that are printed */

const char *texts_name(const struct texts *t, size_t host)
{
	return member_text(json_array_get(t->hosts, host), "name");
}

static size_t count_like(const struct texts *t, const char *text)
{
	size_t count = 0;

	for (size_t i = 0; i < t->count; i++)
		count += t->of[i] && !strcmp(t->of[i], text);
	return count;
}

/* Returns the value of most hosts (the first, if several tie). NULL: no host has one. */
static const char *most_common(const struct texts *t)
{
	const char *common = NULL;
	size_t most = 0;

	for (size_t i = 0; i < t->count; i++) {
		size_t count = t->of[i] ? count_like(t, t->of[i]) : 0;

		if (count > most) {
			most = count;
			common = t->of[i];
		}
	}
	return common;
}

static bool is_first(const struct texts *t, size_t host)
{
	for (size_t i = 0; i < host; i++) {
		if (t->of[i] && !strcmp(t->of[i], t->of[host]))
			return false;
	}
	return true;
}

/* "x on n1, n2 and 3 more" */
static char *told(const struct texts *t, const char *value)
{
	struct text_list names = { 0 };

	for (size_t i = 0; i < t->count; i++) {
		if (t->of[i] && !strcmp(t->of[i], value))
			text_list_add(&names, text_format("%.64s", texts_name(t, i)));
	}
	return text_format("%.*s on %s", VALUE_MAX, *value ? value : "none",
			   text_list_join(&names, NAMED));
}

void texts_compare(const struct texts *t, const char *what, const struct advice *advice,
		   json_t *findings)
{
	const char *common = most_common(t);
	json_t *odd = json_array();
	char *text = text_dup("");
	size_t values = 0;

	/* Each value with its hosts, the uncommon ones first. */
	for (size_t i = 0; common && i < t->count; i++) {
		if (!t->of[i] || !strcmp(t->of[i], common))
			continue;
		json_array_append_new(odd, json_string(texts_name(t, i)));
		if (is_first(t, i) && values++ < VALUES)
			text = text_format("%s%s; ", text, told(t, t->of[i]));
	}
	if (!json_array_size(odd)) {
		json_decref(odd);
		return;
	}
	judge_add(findings, advice, "%.150s: %s%s", what, text, told(t, common));
	finding_concerns(findings, odd);
}

void texts_repeat(const struct texts *t, const char *what, const struct advice *advice,
		  json_t *findings)
{
	for (size_t i = 0; i < t->count; i++) {
		if (!t->of[i] || !is_first(t, i) || count_like(t, t->of[i]) < 2)
			continue;
		judge_add(findings, advice, "%.150s: %s", what, told(t, t->of[i]));
		finding_concerns(findings, json_array());
	}
}

struct texts texts_made(const json_t *hosts, const char *(*make)(const json_t *facts))
{
	struct texts t = { .hosts = hosts,
			   .count = anynet_min(json_array_size(hosts), (size_t)HOSTS_MAX) };

	for (size_t i = 0; i < t.count; i++) {
		const json_t *facts = json_object_get(json_array_get(hosts, i), "facts");

		if (json_is_object(facts))
			t.of[i] = make(facts);
	}
	return t;
}

struct texts texts_of(const json_t *hosts, const char *part, const char *key, const char *missing)
{
	struct texts t = { .hosts = hosts,
			   .count = anynet_min(json_array_size(hosts), (size_t)HOSTS_MAX) };

	for (size_t i = 0; i < t.count; i++) {
		const json_t *host = json_array_get(hosts, i),
			     *facts = json_object_get(host, "facts");
		const json_t *from = !strcmp(part, "facts") ? facts
				     : !strcmp(part, "env") ? json_object_get(facts, "env")
							    : json_object_get(host, part);
		const json_t *value = json_object_get(from, key);

		if (json_is_object(facts) && !json_is_null(value))
			t.of[i] = json_is_string(value) ? json_string_value(value) : missing;
	}
	return t;
}
