/* SPDX-License-Identifier: Apache-2.0 */
/* Parses rule files: "[id]", then "name value" lines. A line that begins with a blank continues the value. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <nccl_net/util.h>

#include "rules.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define RULES_MAX   4096
#define VALUE_BYTES 8192

struct parser {
	struct rules *rules;
	const char *file;
	int line;
	struct rule *rule; /* the current rule, not in the table yet */
	size_t before;     /* number of rules before this file */
	char **last;       /* the text that a continuation line extends; NULL = none */
	char *why;
};

static int complain(struct parser *p, const char *fmt, ...) ANYNET_PRINTF(2, 3);

static int complain(struct parser *p, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	p->why = text_format("%s:%d: %s", p->file, p->line, text_vformat(fmt, args));
	va_end(args);
	return -1;
}

/* --- complete rules --- */

/* Checks that every pattern has each {field} that the text uses. */
static int check_fields(struct parser *p, const struct rule *rule, const char *text)
{
	const char *open = text, *end;
	char name[PATTERN_NAME];

	while (open && (open = strchr(open, '{'))) {
		end = strchr(open, '}');
		if (!end || end - open - 1 >= PATTERN_NAME || end == open + 1)
			return complain(p, "[%s] has a brace that does not begin a field",
					rule->id);
		memcpy(name, open + 1, (size_t)(end - open - 1));
		name[end - open - 1] = '\0';
		for (int i = 0; i < rule->line_count; i++)
			if (!pattern_has_field(rule->lines[i], name))
				return complain(p,
						"[%s] uses the field %s, which one of its lines "
						"lacks",
						rule->id, name);
		open = end;
	}
	return 0;
}

static int check_rule(struct parser *p, const struct rule *rule)
{
	if (!rule->line_count)
		return complain(p, "[%s] has no line", rule->id);
	if (!rule->sample_count)
		return complain(p, "[%s] has no sample", rule->id);
	if ((int)rule->kind < 0)
		return complain(p, "[%s] has no kind", rule->id);
	if (rule->kind == RULE_WHO) {
		for (int i = 0; i < rule->line_count; i++)
			if (!pattern_has_field(rule->lines[i], "rank"))
				return complain(p, "[%s] has a line without {rank}", rule->id);
		return 0;
	}
	if (!rule->title || !rule->why || !rule->fix)
		return complain(p, "[%s] has no %s", rule->id,
				!rule->title ? "title"
				: !rule->why ? "why"
					     : "fix");
	if (rule->kind == RULE_DIFFER || rule->kind == RULE_BEHIND) {
		for (int i = 0; i < rule->line_count; i++)
			if (!pattern_has_field(rule->lines[i], "value"))
				return complain(p, "[%s] has a line without {value}", rule->id);
	}
	/* The fields in the texts of these kinds do not come from the pattern. */
	if (rule->kind == RULE_BEHIND || rule_awaits(rule))
		return 0;
	return check_fields(p, rule, rule->why) || check_fields(p, rule, rule->fix) ||
			       check_fields(p, rule, rule->title)
		       ? -1
		       : 0;
}

static int end_rule(struct parser *p)
{
	struct rules *rules = p->rules;
	struct rule *rule = p->rule;

	if (!rule)
		return 0;
	if (check_rule(p, rule))
		return -1;
	for (size_t i = 0; i < rules->count; i++) {
		if (strcmp(rules->rules[i]->id, rule->id) != 0)
			continue;
		if (i >= p->before)
			return complain(p, "[%s] is defined twice", rule->id);
		p->rule = NULL;
		return 0;
	}
	if (rules->count == RULES_MAX)
		return complain(p, "more than %d rules", RULES_MAX);
	rules->rules = memory_resize(rules->rules, (rules->count + 1) * sizeof(*rules->rules));
	rules->rules[rules->count++] = rule;
	p->rule = NULL;
	return 0;
}

/* --- lines --- */

static int begin_rule(struct parser *p, const char *text)
{
	size_t bytes = strcspn(text + 1, "]");

	if (end_rule(p))
		return -1;
	if (text[bytes + 1] != ']' || text[bytes + 2] || !bytes || bytes > 48)
		return complain(p, "a rule begins with [its-name]");
	for (size_t i = 1; i <= bytes; i++)
		if (!islower((unsigned char)text[i]) && !isdigit((unsigned char)text[i]) &&
		    text[i] != '-')
			return complain(p, "a rule name with characters other than a-z, 0-9, -");
	p->rule = memory_get(sizeof(*p->rule));
	p->rule->kind = (enum rule_kind) - 1;
	p->rule->cause = 50;
	p->rule->at = p->line;
	p->rule->id = text_copy(text + 1, bytes);
	p->last = NULL;
	return 0;
}

static int set_kind(struct parser *p, const char *value)
{
	for (int kind = RULE_ERROR; kind <= RULE_END; kind++) {
		if (!strcmp(value, rule_kind_text((enum rule_kind)kind))) {
			p->rule->kind = (enum rule_kind)kind;
			return 0;
		}
	}
	return complain(
		p,
		"kind %.40s: error, warning, harmless, follows, differ, who, behind, unknown, program, next, trace or end",
		value);
}

static int set_cause(struct parser *p, const char *value)
{
	char *end;
	long cause = strtol(value, &end, 10);

	if (*end || !*value || cause < 0 || cause > 99)
		return complain(p, "cause %.40s: a number from 0 to 99", value);
	p->rule->cause = (int)cause;
	return 0;
}

static int set_text(struct parser *p, char **text, const char *value)
{
	if (*text)
		return complain(p, "twice in one rule");
	*text = text_dup(value);
	p->last = text;
	return 0;
}

static int add_text(struct parser *p, char **texts, int *count, const char *value)
{
	if (*count == RULE_TEXTS)
		return complain(p, "more than %d in one rule", RULE_TEXTS);
	texts[(*count)++] = text_dup(value);
	return 0;
}

static int add_line(struct parser *p, const char *value)
{
	struct rule *rule = p->rule;
	char *why;

	if (rule->line_count == RULE_TEXTS)
		return complain(p, "more than %d lines in one rule", RULE_TEXTS);
	rule->lines[rule->line_count] = pattern_new(value, &why);
	if (!rule->lines[rule->line_count])
		return complain(p, "%s", why);
	rule->line_count++;
	return 0;
}

static int set(struct parser *p, const char *name, const char *value)
{
	struct rule *rule = p->rule;
	const struct {
		const char *name;
		char **text;
	} texts[] = {
		{ "title", &rule->title }, { "why", &rule->why },
		{ "fix", &rule->fix },     { "versions", &rule->versions },
		{ "see", &rule->see },     { "explains", &rule->explains },
	};

	p->last = NULL;
	if (!*value)
		return complain(p, "%.40s has no value", name);
	if (!strcmp(name, "kind"))
		return set_kind(p, value);
	if (!strcmp(name, "cause"))
		return set_cause(p, value);
	if (!strcmp(name, "line"))
		return add_line(p, value);
	if (!strcmp(name, "sample"))
		return add_text(p, rule->samples, &rule->sample_count, value);
	if (!strcmp(name, "format"))
		return add_text(p, rule->formats, &rule->format_count, value);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!strcmp(name, texts[i].name))
			return set_text(p, texts[i].text, value);
	}
	return complain(p,
			"%.40s is not one of kind, cause, title, line, why, fix, versions, see, "
			"explains, sample, format",
			name);
}

static int go_on(struct parser *p, const char *more)
{
	if (!p->last)
		return complain(p, "a continuation line without a line before it");
	if (strlen(*p->last) + strlen(more) + 2 > VALUE_BYTES)
		return complain(p, "a text of more than %d bytes", VALUE_BYTES);
	*p->last = text_format("%s %s", *p->last, more);
	return 0;
}

/* Modifies `text`. */
static int parse_line(struct parser *p, char *text)
{
	char *value;

	for (char *end = text + strlen(text); end > text && isspace((unsigned char)end[-1]);)
		*--end = '\0';
	if (!*text || *text == '#')
		return 0;
	if (*text == '[')
		return begin_rule(p, text);
	if (!p->rule)
		return complain(p, "before the first [rule]");
	if (*text == ' ' || *text == '\t')
		return go_on(p, text + strspn(text, " \t"));
	value = text + strcspn(text, " \t");
	if (*value)
		*value++ = '\0';
	return set(p, text, value + strspn(value, " \t"));
}

static bool is_text(const char *text, size_t bytes)
{
	json_t *json = json_stringn(text, bytes); /* NULL: not UTF-8 */
	bool good = json && !memchr(text, '\0', bytes);

	json_decref(json);
	return good;
}

char *rules_add(struct rules *rules, const char *text, size_t bytes, const char *file)
{
	struct parser p = { .rules = rules, .file = file, .before = rules->count };
	const char *end = text + bytes;
	char line[VALUE_BYTES];
	int ret = 0;

	while (text < end && !ret) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t length = (size_t)((newline ? newline : end) - text);

		p.line++;
		if (length >= sizeof(line) || !is_text(text, length)) {
			ret = complain(&p, length >= sizeof(line) ? "a line of more than 8191 bytes"
								  : "this is not UTF-8 text");
			break;
		}
		memcpy(line, text, length);
		line[length] = '\0';
		ret = parse_line(&p, line);
		text += length + 1;
	}
	if (!ret)
		end_rule(&p);
	return p.why;
}
