/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of a value across hosts; see compare.h. */
#include "compare.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/shared/member.h"

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

static size_t append(char *text, size_t room, size_t at, const char *more)
{
	return at + (size_t)snprintf(text + at, room - at, "%.*s", (int)(room - at - 1), more);
}

/* Appends "'x' on n1, n2 and 3 more". */
static size_t tell_value(const struct texts *t, const char *value, char *text, size_t room,
			 size_t at)
{
	size_t named = 0, left = count_like(t, value);
	char part[VALUE_MAX + 40];

	snprintf(part, sizeof(part), "%.*s on ", VALUE_MAX, *value ? value : "none");
	at = append(text, room, at, part);
	for (size_t i = 0; i < t->count && named < NAMED; i++) {
		if (!t->of[i] || strcmp(t->of[i], value) != 0)
			continue;
		snprintf(part, sizeof(part), "%s%.64s", named ? ", " : "", texts_name(t, i));
		at = append(text, room, at, part);
		named++;
		left--;
	}
	if (left) {
		snprintf(part, sizeof(part), " and %zu more", left);
		at = append(text, room, at, part);
	}
	return at;
}

/* Lists the values with their hosts, the uncommon ones first. Returns the hosts that differ; NULL = none. */
static json_t *tell_difference(const struct texts *t, char *text, size_t room)
{
	const char *common = most_common(t);
	json_t *odd = json_array();
	size_t at = 0, told = 0;

	for (size_t i = 0; common && i < t->count; i++) {
		if (!t->of[i] || !strcmp(t->of[i], common))
			continue;
		json_array_append_new(odd, json_string(texts_name(t, i)));
		if (!is_first(t, i) || told++ >= VALUES)
			continue;
		at = tell_value(t, t->of[i], text, room, at);
		at = append(text, room, at, "; ");
	}
	if (!json_array_size(odd)) {
		json_decref(odd);
		return NULL;
	}
	tell_value(t, common, text, room, at);
	return odd;
}

void texts_compare(const struct texts *t, const char *what, const struct advice *advice,
		   json_t *findings)
{
	char text[FINDING_MAX - 200];
	json_t *odd = tell_difference(t, text, sizeof(text));

	if (!odd)
		return;
	judge_add(findings, advice, "%.150s: %s", what, text);
	finding_concerns(findings, odd);
}

void texts_repeat(const struct texts *t, const char *what, const struct advice *advice,
		  json_t *findings)
{
	for (size_t i = 0; i < t->count; i++) {
		char text[FINDING_MAX - 200];

		if (!t->of[i] || !is_first(t, i) || count_like(t, t->of[i]) < 2)
			continue;
		tell_value(t, t->of[i], text, sizeof(text), 0);
		judge_add(findings, advice, "%.150s: %s", what, text);
		finding_concerns(findings, json_array());
	}
}

struct texts texts_of(const json_t *hosts, const char *part, const char *key, const char *missing)
{
	struct texts t = { .hosts = hosts };
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host) {
		const json_t *facts = json_object_get(host, "facts");
		const json_t *from = !strcmp(part, "facts") ? facts
				     : !strcmp(part, "env") ? json_object_get(facts, "env")
							    : json_object_get(host, part);
		const json_t *value = json_object_get(from, key);

		if (i == HOSTS_MAX)
			break;
		t.count = i + 1;
		if (json_is_object(facts))
			t.of[i] = json_is_string(value) ? json_string_value(value) : missing;
	}
	return t;
}
