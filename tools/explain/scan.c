/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter searches whole blocks for keys, and only where it finds one are the bounds of the line determined.
 * Regular expressions see at most WINDOW bytes around the key, and a line longer than a block is processed in
 * pieces. This bounds memory and time for any input.
 */
#include "scan.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/util.h>

#include "behind.h"
#include "encoding.h"
#include "tools/shared/clean.h"
#include "tools/shared/memory.h"

#define WINDOW        6144 /* bytes of a line that are matched */
#define WINDOW_BEFORE 2048 /* of these, bytes before the key */
#define CUT           4096 /* a line longer than a block is cut at the last blank within this many bytes */
#define TRACE_LINES   1000 /* of all processes, until the end of a RULE_TRACE */

struct scan {
	struct rules *rules;
	struct report *report;
	char *buffer;
	size_t room;
	size_t used;
	uint64_t *hits; /* bitmap over rules.lines: patterns whose key is in the line */
	size_t hit_words;
	int file;
	unsigned long line;         /* line number of the block's first byte, from 1 */
	bool in_line;               /* the block begins inside a line that was cut */
	struct origin origin;       /* of that line */
	/* A RULE_NEXT that waits for the next line, or a RULE_TRACE for the end of its trace; NULL = none. */
	const struct rule *awaited;
	/* For a RULE_TRACE: its writer, where its message begins in a line, and the lines that it still waits for. */
	unsigned awaited_source;
	size_t awaited_column;
	unsigned awaited_lines;
};

struct scan *scan_new(struct rules *rules, struct report *report, size_t block)
{
	struct scan *s = memory_get(sizeof(*s));

	s->rules = rules;
	s->report = report;
	s->room = block;
	s->buffer = memory_get(block);
	s->hit_words = rules->line_count / 64 + 1;
	s->hits = memory_get(s->hit_words * sizeof(*s->hits));
	return s;
}

/* --- one line --- */

/* The part of a line that is matched. */
struct window {
	const char *begin, *end;
	struct origin origin;
	struct place place;
};

/* Returns the number of at most `digits` digits, or -1. */
static long long number_of(const struct field *field, size_t digits)
{
	long long value = 0;

	if (!field || !field->bytes || field->bytes > digits)
		return -1;
	for (size_t i = 0; i < field->bytes; i++) {
		if (field->data[i] < '0' || field->data[i] > '9')
			return -1;
		value = value * 10 + (field->data[i] - '0');
	}
	return value;
}

/* Returns the rank of the process in the job, as far as the line shows it; otherwise `rank`, which is in its group. */
static int note_progress(struct scan *s, const struct rule *rule, const struct window *w,
			 const struct match *match, int rank)
{
	const struct field *group = match_field(match, "group");
	long long value = number_of(match_field(match, "value"), 18);
	int name = w->origin.rank >= 0 ? w->origin.rank : rank;
	const struct rank_progress progress = {
		.rank = rank >= 0 ? rank : name,
		.name = name,
		.source = sources_find(&s->report->sources, &w->origin),
		.value = (unsigned long long)value,
	};

	if (name >= 0 && value >= 0)
		behind_add(s->report->findings[rule->number], group ? group->data : "",
			   group ? group->bytes : 0, &progress);
	return name;
}

/* Where the trace begins in its lines. The blanks of a progress bar that precedes it on its line are no indent. */
static size_t trace_column(const struct window *w)
{
	static const char head[] = "Traceback";
	size_t column = w->origin.message, bytes = (size_t)(w->end - w->begin);

	if (bytes < column + sizeof(head) || !memcmp(w->begin + column, head, sizeof(head) - 1))
		return column;
	while (column && w->begin[column - 1] == ' ')
		column--;
	return column ? column + 1 : 0;
}

/* Waits for the line with the error. A trace that has not ended is not replaced by one of another process. */
static void await(struct scan *s, const struct rule *rule, const struct window *w)
{
	unsigned source = sources_find(&s->report->sources, &w->origin);

	if (rule->kind == RULE_TRACE && s->awaited && s->awaited_source != source)
		return;
	s->awaited = rule;
	s->awaited_source = source;
	s->awaited_column = trace_column(w);
	s->awaited_lines = rule->kind == RULE_TRACE ? TRACE_LINES : 1;
}

static void matched(struct scan *s, const struct rule *rule, const struct window *w,
		    const struct match *match)
{
	struct origin other = { .device = -1 };
	unsigned source;
	int rank = (int)number_of(match_field(match, "rank"), 9);

	if (rule_awaits(rule)) {
		await(s, rule, w);
		return;
	}
	if (rule->kind == RULE_BEHIND)
		rank = note_progress(s, rule, w, match, rank);
	if (rule->kind == RULE_WHO) {
		source = sources_find(&s->report->sources, &w->origin);
		if (rank >= 0)
			sources_set_rank(&s->report->sources, source, rank,
					 (int)number_of(match_field(match, "nranks"), 9));
		return;
	}
	other.rank = rank;
	source = sources_find(&s->report->sources, rank >= 0 ? &other : &w->origin);
	report_add(s->report, rule,
		   &(struct sighting){ &w->place, source, w->begin, (size_t)(w->end - w->begin),
				       match });
}

/*
 * Reports the line to the first rule that matches, and to all matching rules for which rule_is_additional. Clears the
 * hits. Returns whether a rule of the first sort matched.
 */
static bool judge(struct scan *s, const struct window *w)
{
	bool found = false;
	struct match match;

	for (size_t word = 0; word < s->hit_words; word++) {
		while (s->hits[word]) {
			size_t i = word * 64 + (size_t)__builtin_ctzll(s->hits[word]);
			const struct rule_line *line = &s->rules->lines[i];
			bool additional = rule_is_additional(line->rule);

			s->hits[word] &= s->hits[word] - 1;
			if (found && !additional)
				continue;
			if (!pattern_match(line->pattern, w->begin, (size_t)(w->end - w->begin),
					   &match))
				continue;
			matched(s, line->rule, w, &match);
			found |= !additional;
		}
	}
	return found;
}

static void note_key(struct scan *s, const struct filter_key *key)
{
	const uint16_t *users = filter_users(s->rules->filter, key);

	for (int i = 0; i < key->count; i++)
		s->hits[users[i] / 64] |= 1ull << users[i] % 64;
}

static void note_keys(struct scan *s, const char *p, const char *end)
{
	const struct filter_key *key;

	for (; (p = filter_next(s->rules->filter, p, end, &key)); p++)
		note_key(s, key);
}

/* --- blocks --- */

static unsigned long count_lines(const char *p, const char *end)
{
	unsigned long count = 0;

	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		count++;
		p++;
	}
	return count;
}

/* Returns the byte after the last line end in [from, p), or NULL. '\r' ends a line too, for progress bars. */
static const char *line_begin(const char *from, const char *p)
{
	while (p > from && p[-1] != '\n' && p[-1] != '\r')
		p--;
	return p > from ? p : NULL;
}

static const char *line_end(const char *p, const char *end)
{
	while (p < end && *p != '\n' && *p != '\r')
		p++;
	return p;
}

/* A block of text being searched. */
struct text {
	const char *data, *end;
	const char *line;     /* begin of the line that contains `seen` */
	const char *seen;     /* end of what has been searched */
	const char *counted;  /* end of the part whose lines have been counted */
	unsigned long number; /* line number at `counted` */
};

/* Judges the line around the key at `p`, and advances text->seen. */
static void take_line(struct scan *s, struct text *text, const char *p,
		      const struct filter_key *key)
{
	const char *begin = line_begin(text->seen, p);
	const char *stop = text->end;
	struct window w;

	if (begin)
		text->line = begin;
	if ((size_t)(stop - p) > WINDOW - WINDOW_BEFORE)
		stop = p + WINDOW - WINDOW_BEFORE;
	w.begin = p - text->line > WINDOW_BEFORE ? p - WINDOW_BEFORE : text->line;
	w.end = line_end(p, stop);
	text->number += count_lines(text->counted, p);
	text->counted = p;
	if (text->line == text->data && s->in_line)
		w.origin = s->origin;
	else
		origin_parse(&w.origin, text->line, (size_t)(w.end - text->line));
	w.place = (struct place){ s->file, text->number, w.origin.time_us };
	note_key(s, key);
	note_keys(s, p + 1, w.end);
	judge(s, &w);
	/* The end of the window may split a key. */
	text->seen = w.end == stop && stop < text->end ? stop - (PATTERN_KEY - 1) : w.end;
}

/* Whether the message is the end of a trace: "pkg.Type" or "pkg.Type: text". Stores the bytes of the type. */
static bool is_exception(const char *message, size_t bytes, size_t *type_bytes)
{
	size_t n = 0;

	while (n < bytes && (isalnum((unsigned char)message[n]) || memchr("_.<>", message[n], 4)))
		n++;
	*type_bytes = n;
	return n && !isdigit((unsigned char)*message) &&
	       (n == bytes || (message[n] == ':' && (n + 1 == bytes || message[n + 1] == ' ')));
}

/* Reports the line as {text} of the rule that has waited for it. */
static void report_awaited(struct scan *s, const struct rule *rule, const struct window *w)
{
	const char *message = w->begin + w->origin.message;
	size_t bytes = (size_t)(w->end - message), type_bytes = 0;
	struct match match = { .field_count = 2, .fields = { { "text", message, bytes } } };

	if (!bytes || (rule->kind == RULE_TRACE && !is_exception(message, bytes, &type_bytes)))
		return;
	match.fields[1] = (struct field){ "type", message, type_bytes };
	report_add(s->report, rule,
		   &(struct sighting){ &w->place, sources_find(&s->report->sources, &w->origin),
				       w->begin, (size_t)(w->end - w->begin), &match });
}

/* Whether the line, between those of other processes, belongs to the trace that has not ended. */
static bool is_in_trace(const struct scan *s, const struct window *w)
{
	return s->awaited->kind == RULE_TRACE &&
	       (w->origin.message > s->awaited_column || w->begin + w->origin.message == w->end ||
		sources_find(&s->report->sources, &w->origin) != s->awaited_source);
}

/*
 * Takes the line after a RULE_NEXT, or the next one after a RULE_TRACE: if it is the one that they wait for and no rule
 * of its own matches, it is reported. Returns whether the text has such a line.
 */
static bool take_awaited(struct scan *s, struct text *text)
{
	/* If nothing of this text has been searched, the line before was the last one of the text before. */
	const char *begin = text->seen == text->data ? text->data : line_end(text->seen, text->end);
	const struct rule *rule = NULL;
	struct window w;

	while (begin < text->end && (*begin == '\n' || *begin == '\r'))
		begin++;
	if (begin == text->end)
		return false;
	text->line = begin;
	text->number += count_lines(text->counted, begin);
	text->counted = begin;
	w.begin = begin;
	w.end = line_end(begin, begin + anynet_min((size_t)(text->end - begin), WINDOW));
	origin_parse(&w.origin, begin, (size_t)(w.end - begin));
	w.place = (struct place){ s->file, text->number, w.origin.time_us };
	if (!is_in_trace(s, &w))
		rule = s->awaited;
	if (rule || !--s->awaited_lines)
		s->awaited = NULL;
	note_keys(s, begin, w.end);
	if (!judge(s, &w) && rule)
		report_awaited(s, rule, &w);
	text->seen = w.end;
	return true;
}

/* Searches text that continues the previous one. `cut`: its last line continues in the next text. */
static void take_text(struct scan *s, const char *data, size_t bytes, bool cut)
{
	struct text text = { data, data + bytes, data, data, data, s->line };
	const struct filter_key *key;
	const char *p, *last;

	if (s->in_line)
		s->awaited = NULL;
	for (;;) {
		while (s->awaited && take_awaited(s, &text))
			;
		p = filter_next(s->rules->filter, text.seen, text.end, &key);
		if (!p)
			break;
		take_line(s, &text, p, key);
	}
	s->line = text.number + count_lines(text.counted, text.end);
	if (!bytes)
		return;
	if (cut && text.end[-1] != '\r') {
		last = line_begin(data, text.end);
		if (last || !s->in_line)
			origin_parse(&s->origin, last ? last : data,
				     (size_t)(text.end - (last ? last : data)));
	}
	s->in_line = cut && text.end[-1] != '\r';
}

/* Returns the bytes of whole lines in the buffer. If one line fills it, sets *cut and returns a piece of the line. */
static size_t whole_lines(const struct scan *s, bool *cut)
{
	const char *end = memrchr(s->buffer, '\n', s->used);

	*cut = false;
	if (end)
		return (size_t)(end + 1 - s->buffer);
	if (s->used < s->room)
		return 0;
	*cut = true;
	end = memrchr(s->buffer, '\r', s->used);
	if (!end)
		end = memrchr(s->buffer + s->used - anynet_min(s->used / 2, CUT), ' ',
			      anynet_min(s->used / 2, CUT));
	return end ? (size_t)(end + 1 - s->buffer) : s->used;
}

static void take_buffer(struct scan *s, bool at_end)
{
	bool cut = false;
	size_t bytes = at_end ? s->used : whole_lines(s, &cut);

	if (!bytes)
		return;
	take_text(s, s->buffer, clean_escapes(s->buffer, bytes), cut);
	s->used -= bytes;
	memmove(s->buffer, s->buffer + bytes, s->used);
}

static void begin_file(struct scan *s, const char *name)
{
	s->file = report_file(s->report, name);
	s->used = 0;
	s->line = 1;
	s->in_line = false;
	s->awaited = NULL;
}

static void end_file(struct scan *s)
{
	char last = s->used ? s->buffer[s->used - 1] : '\n';
	bool open = s->used ? last != '\n' : s->in_line;
	struct log_file *file = &s->report->files[s->file];

	take_buffer(s, true);
	file->lines = s->line - 1 + open;
	s->report->lines += file->lines;
}

static ssize_t read_more(struct scan *s, int fd)
{
	ssize_t got;

	do {
		got = read(fd, s->buffer + s->used, s->room - s->used);
	} while (got < 0 && errno == EINTR);
	return got;
}

const char *scan_fd(struct scan *s, int fd, const char *name,
		    void (*tick)(void *context, unsigned long long bytes), void *context)
{
	unsigned long long total = 0;
	const char *why = NULL;
	ssize_t got;

	s->used = 0;
	got = read_more(s, fd);
	if (got > 0)
		why = encoding_of(s->buffer, (size_t)got);
	if (why)
		return why;
	begin_file(s, name);
	for (; got > 0; got = read_more(s, fd)) {
		s->used += (size_t)got;
		total += (unsigned long long)got;
		s->report->bytes += (unsigned long long)got;
		take_buffer(s, false);
		if (tick)
			tick(context, total);
	}
	why = got < 0 ? strerror(errno) : NULL;
	end_file(s);
	return why;
}
