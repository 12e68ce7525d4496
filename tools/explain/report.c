/* SPDX-License-Identifier: Apache-2.0 */
/* Collects findings. inquiry.c decides what they mean together. */
#include "report.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/clean.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define RANKS_BYTES 192 /* of a list of ranks; what follows is "…" */
#define HOSTS_NAMED 8

static struct finding *new_finding(struct report *r, const struct rule *rule)
{
	struct finding *f = memory_get(sizeof(*f));

	f->rule = rule;
	f->kind = rule_is_program(rule) ? RULE_PROGRAM : rule->kind;
	r->findings = memory_resize(r->findings, (r->finding_count + 1) * sizeof(*r->findings));
	r->findings[r->finding_count++] = f;
	return f;
}

struct report *report_new(const struct rules *rules)
{
	struct report *r = memory_get(sizeof(*r));

	for (size_t i = 0; i < rules->count; i++)
		new_finding(r, rules->rules[i]);
	sources_init(&r->sources);
	return r;
}

static char *clean_name(const char *name)
{
	char text[512];

	clean(text, sizeof(text), name, strlen(name));
	return text_dup(text);
}

int report_file(struct report *r, const char *name)
{
	r->files = memory_resize(r->files, ((size_t)r->file_count + 1) * sizeof(*r->files));
	r->files[r->file_count] = (struct log_file){ .name = clean_name(name) };
	return r->file_count++;
}

void report_unread(struct report *r, const char *name, const char *why)
{
	r->unread = memory_resize(r->unread, (r->unread_count + 1) * sizeof(*r->unread));
	r->unread[r->unread_count++] = (struct unread){ clean_name(name), clean_name(why) };
}

/* --- sets of sources --- */

static void set_add(struct source_set *set, unsigned source)
{
	unsigned word = source / 64;

	if (word >= set->words) {
		set->bits = memory_resize(set->bits, (word + 1) * sizeof(*set->bits));
		memset(set->bits + set->words, 0, (word + 1 - set->words) * sizeof(*set->bits));
		set->words = word + 1;
	}
	set->bits[word] |= 1ull << source % 64;
}

bool source_set_has(const struct source_set *set, unsigned source)
{
	return source / 64 < set->words && set->bits[source / 64] >> source % 64 & 1;
}

static int by_number(const void *left, const void *right)
{
	const int *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

size_t report_ranks(const struct report *r, const struct source_set *set, int *ranks)
{
	size_t n = 0, unique = 0;

	for (unsigned i = 1; i < r->sources.count; i++)
		if (source_set_has(set, i) && r->sources.list[i].rank >= 0)
			ranks[n++] = r->sources.list[i].rank;
	qsort(ranks, n, sizeof(*ranks), by_number);
	for (size_t i = 0; i < n; i++)
		if (!unique || ranks[unique - 1] != ranks[i])
			ranks[unique++] = ranks[i];
	return unique;
}

/* "ranks 0-3, 7", "rank 2", or "". */
static char *ranks_text(const int *ranks, size_t count)
{
	char *text = text_dup(!count ? "" : count == 1 ? "rank " : "ranks ");

	for (size_t i = 0, last; i < count; i = last + 1) {
		if (strlen(text) > RANKS_BYTES)
			return text_format("%s, …", text);
		for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1; last++)
			;
		text = text_format("%s%s%d", text, i ? ", " : "", ranks[i]);
		if (last > i)
			text = text_format("%s-%d", text, ranks[last]);
	}
	return text;
}

char *report_who(const struct report *r, const struct source_set *set)
{
	int *ranks = memory_get(r->sources.count * sizeof(*ranks));
	size_t count = report_ranks(r, set, ranks);
	struct text_list hosts = { 0 };
	const struct source *only = NULL;
	unsigned members = 0;
	char *text = ranks_text(ranks, count);
	bool more;

	for (unsigned i = 1; i < r->sources.count; i++) {
		if (!source_set_has(set, i))
			continue;
		members++;
		only = &r->sources.list[i];
		if (*only->host && hosts.count <= HOSTS_NAMED)
			text_list_add_new(&hosts, only->host);
	}
	more = hosts.count > HOSTS_NAMED;
	hosts.count -= more;
	if (hosts.count)
		text = text_format("%s%son %s%s", text, count ? " " : "",
				   text_list_join(&hosts, HOSTS_NAMED), more ? ", …" : "");
	if (members == 1 && !count && only->pid)
		text = text_format("%s%sprocess %d", text, *text ? ", " : "", only->pid);
	return text;
}

/* --- adding --- */

static bool is_earlier(const struct place *a, const struct place *b)
{
	if (b->file < 0)
		return true;
	if (a->file != b->file && a->time_us != ORIGIN_NO_TIME && b->time_us != ORIGIN_NO_TIME)
		return a->time_us < b->time_us;
	return false;
}

static void add_value(struct finding *f, const struct place *place, unsigned source,
		      const struct match *match)
{
	const struct field *field = match_field(match, "value");
	char text[REPORT_VALUE];
	int v = 0;

	clean(text, sizeof(text), field->data, field->bytes);
	while (v < f->value_count && strcmp(f->values[v].text, text) != 0)
		v++;
	if (v == REPORT_VALUES)
		return;
	if (v == f->value_count) {
		f->values = memory_resize(f->values, ((size_t)v + 1) * sizeof(*f->values));
		f->values[f->value_count++] = (struct value){ .first = { .file = -1 } };
		memcpy(f->values[v].text, text, sizeof(text));
	}
	f->values[v].count++;
	set_add(&f->values[v].sources, source);
	if (is_earlier(place, &f->values[v].first))
		f->values[v].first = *place;
}

/* Copies the text over the one that is kept, so that a finding stays of one size. */
static void keep(char **kept, const char *text)
{
	*kept = memory_resize(*kept, strlen(text) + 1);
	memcpy(*kept, text, strlen(text) + 1);
}

static void expand(char **kept, const char *text, const struct match *match)
{
	uint64_t mark;

	keep(kept, "");
	mark = memory_mark();
	keep(kept, rules_expand(text, match));
	memory_release(mark);
}

void report_expand(struct finding *f, const struct match *match)
{
	expand(&f->title, f->rule->title, match);
	expand(&f->why, f->rule->why, match);
	expand(&f->fix, f->rule->fix, match);
}

/* Appends the field, with '#' for each word that has a digit: ranks, addresses and times may differ. */
static size_t append_words(char *out, size_t used, const struct field *field)
{
	size_t word = used;  /* where the present word begins */
	bool number = false; /* it has a digit */

	for (size_t i = 0; field && i < field->bytes && used + 2 < REPORT_MESSAGE; i++) {
		unsigned char c = (unsigned char)field->data[i];
		bool in_word = isalnum(c) || c == '_';

		if (in_word && number)
			continue;
		number = isdigit(c);
		if (number)
			used = word;
		out[used++] = number ? '#' : (char)c;
		if (!in_word)
			word = used;
	}
	out[used++] = '\n';
	return used;
}

static void forget(struct finding *f)
{
	f->count = 0;
	memset(f->sources.bits, 0, f->sources.words * sizeof(*f->sources.bits));
}

/* Returns the finding to which such a line belongs. */
static struct finding *finding_of(struct report *r, const struct rule *rule,
				  const struct match *match)
{
	struct finding *f = r->findings[rule->number];
	char text[REPORT_MESSAGE + 1];
	int texts = 1;
	size_t bytes;

	if (!rule_is_general(rule))
		return f;
	bytes = append_words(text, 0, match_field(match, "type"));
	bytes = append_words(text, bytes, match_field(match, "text"));
	text[bytes] = '\0';
	for (; f->text && strcmp(f->text, text) != 0 && f->next; f = f->next)
		texts++;
	if (f->text && strcmp(f->text, text) != 0) {
		if (texts < REPORT_TEXTS)
			f = f->next = new_finding(r, rule);
		else
			forget(f);
	}
	keep(&f->text, text);
	return f;
}

void report_add(struct report *r, const struct rule *rule, const struct sighting *seen)
{
	struct finding *f = finding_of(r, rule, seen->match);
	char message[REPORT_MESSAGE];

	if (!f->count)
		f->first.file = -1;
	f->count++;
	f->last = *seen->place;
	set_add(&f->sources, seen->source);
	if (rule->kind == RULE_DIFFER)
		add_value(f, seen->place, seen->source, seen->match);
	if (!is_earlier(seen->place, &f->first))
		return;
	f->first = *seen->place;
	f->first_source = seen->source;
	clean(message, sizeof(message), seen->line, seen->bytes);
	keep(&f->message, message);
	report_expand(f, seen->match);
}

int report_status(const struct report *r)
{
	return r->error_count ? 2 : r->unread_count ? 3 : r->warning_count ? 1 : 0;
}
