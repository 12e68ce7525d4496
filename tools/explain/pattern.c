/* SPDX-License-Identifier: Apache-2.0 */
/* Translates patterns to PCRE2 regular expressions. */
#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <ctype.h>
#include <pcre2.h>
#include <string.h>

#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define RUNS_MAX 16

/* Backtracking steps for one line. No built-in pattern uses 1 % of this. */
#define MATCH_LIMIT 200000

struct pattern {
	char *text;
	char *regex;
	size_t regex_bytes;
	char *runs[RUNS_MAX];
	int run_count;
	char names[PATTERN_FIELDS][PATTERN_NAME];
	int field_count;
	pcre2_code *code;
	pcre2_match_data *data;
	pcre2_match_context *context;
	bool broken;
};

/* A regular expression under construction. */
struct builder {
	struct pattern *pattern;
	size_t run; /* bytes of the run of text at its end */
	char **why;
};

static int complain(struct builder *b, const char *what)
{
	*b->why = text_format("%s: %.200s", what, b->pattern->text);
	return -1;
}

static void put(struct builder *b, const char *text, size_t bytes)
{
	memcpy(b->pattern->regex + b->pattern->regex_bytes, text, bytes);
	b->pattern->regex_bytes += bytes;
}

/* A blank matches one or more, because logs are padded. */
static void put_text(struct builder *b, char c)
{
	if (c == ' ') {
		put(b, " +", 2);
		return;
	}
	if (!isalnum((unsigned char)c) && !((unsigned char)c & 0x80))
		put(b, "\\", 1);
	put(b, &c, 1);
}

static void end_run(struct builder *b, const char *end)
{
	struct pattern *p = b->pattern;

	if (b->run >= PATTERN_KEY && p->run_count < RUNS_MAX)
		p->runs[p->run_count++] = text_copy(end - b->run, b->run);
	b->run = 0;
}

/* Returns the closing brace of the field that begins at `p`, or NULL. Braces inside the field are balanced. */
static const char *field_end(const char *p)
{
	int depth = 1;

	for (; *p; p++) {
		if (*p == '\\' && p[1])
			p++;
		else if (*p == '{')
			depth++;
		else if (*p == '}' && !--depth)
			return p;
	}
	return NULL;
}

static int add_field(struct builder *b, const char *text, const char *end)
{
	struct pattern *p = b->pattern;
	const char *colon = memchr(text, ':', (size_t)(end - text));
	size_t bytes = (size_t)((colon ? colon : end) - text);
	char *name = p->names[p->field_count];

	if (bytes == 1 && *text == '*') {
		put(b, ".*?", 3);
		return 0;
	}
	if (p->field_count == PATTERN_FIELDS)
		return complain(b, "too many fields");
	if (!bytes || bytes >= PATTERN_NAME || isdigit((unsigned char)*text))
		return complain(b, "a field without a valid name");
	for (size_t i = 0; i < bytes; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
		    text[i] != '_')
			return complain(b, "a field name with characters other than a-z, 0-9, _");
	memcpy(name, text, bytes);
	name[bytes] = '\0';
	for (int i = 0; i < p->field_count; i++)
		if (!strcmp(p->names[i], name))
			return complain(b, "a field name that is used twice");
	p->field_count++;
	put(b, "(?<", 3);
	put(b, name, bytes);
	put(b, ">", 1);
	if (colon)
		put(b, colon + 1, (size_t)(end - colon - 1));
	else
		put(b, "\\S+", 3);
	put(b, ")", 1);
	return 0;
}

static int build(struct builder *b)
{
	const char *text = b->pattern->text, *p = text;

	while (*p) {
		const char *end;

		if (*p != '{' && *p != '}') {
			put_text(b, *p++);
			b->run++;
			continue;
		}
		end_run(b, p);
		if (p[0] == p[1]) {
			put_text(b, *p);
			p += 2;
			continue;
		}
		end = *p == '{' ? field_end(p + 1) : NULL;
		if (!end)
			return complain(b, "an unmatched brace ({{ is a literal brace)");
		if (add_field(b, p + 1, end))
			return -1;
		p = end + 1;
	}
	end_run(b, p);
	if (!b->pattern->run_count)
		return complain(b, "expected seven bytes of text in a row");
	return 0;
}

struct pattern *pattern_new(const char *text, char **why)
{
	struct pattern *p = memory_get(sizeof(*p));
	struct builder b = { .pattern = p, .why = why };

	p->text = text_dup(text);
	p->regex = memory_get(8 * strlen(text) + 64); /* a field {x} is (?<x>\S+) */
	return build(&b) ? NULL : p;
}

void pattern_free(struct pattern *p)
{
	pcre2_match_context_free(p->context);
	pcre2_match_data_free(p->data);
	pcre2_code_free(p->code);
}

const char *pattern_text(const struct pattern *p)
{
	return p->text;
}

const char *pattern_run(const struct pattern *p, int i)
{
	return i < p->run_count ? p->runs[i] : NULL;
}

bool pattern_has_field(const struct pattern *p, const char *name)
{
	for (int i = 0; i < p->field_count; i++)
		if (!strcmp(p->names[i], name))
			return true;
	return false;
}

char *pattern_compile(struct pattern *p)
{
	PCRE2_UCHAR text[128] = "";
	size_t where;
	int error;

	if (p->code)
		return NULL;
	/* NEVER_UTF: logs contain arbitrary bytes. */
	p->code = pcre2_compile((PCRE2_SPTR)p->regex, p->regex_bytes,
				PCRE2_NEVER_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &where, NULL);
	if (!p->code) {
		pcre2_get_error_message(error, text, sizeof(text));
		p->broken = true;
		return text_format("not a regular expression (%s): %.200s", (const char *)text,
				   p->text);
	}
	/* The result is ignored: without JIT, matching only is slower. */
	pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
	p->data = pcre2_match_data_create_from_pattern(p->code, NULL);
	p->context = pcre2_match_context_create(NULL);
	if (!p->data || !p->context)
		memory_failed();
	pcre2_set_match_limit(p->context, MATCH_LIMIT);
	pcre2_set_heap_limit(p->context, 4096);
	return NULL;
}

bool pattern_match(struct pattern *p, const char *line, size_t bytes, struct match *match)
{
	const PCRE2_SIZE *ends;

	if (p->broken || pattern_compile(p))
		return false;
	if (pcre2_match(p->code, (PCRE2_SPTR)line, bytes, 0, 0, p->data, p->context) < 1)
		return false;
	ends = pcre2_get_ovector_pointer(p->data);
	match->field_count = 0;
	for (int i = 0; i < p->field_count; i++) {
		int n = pcre2_substring_number_from_name(p->code, (PCRE2_SPTR)p->names[i]);
		bool set = n > 0 && ends[2 * n] != PCRE2_UNSET && ends[2 * n + 1] >= ends[2 * n];

		match->fields[match->field_count++] = (struct field){
			.name = p->names[i],
			.data = set ? line + ends[2 * n] : line,
			.bytes = set ? ends[2 * n + 1] - ends[2 * n] : 0,
		};
	}
	return true;
}

const struct field *match_field(const struct match *match, const char *name)
{
	for (int i = 0; i < match->field_count; i++)
		if (!strcmp(match->fields[i].name, name))
			return &match->fields[i];
	return NULL;
}
