/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the prefixes of log lines token by token. What a token looks like is in a table. */
#include "origin.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdbool.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/memory.h"

#define HEAD         512 /* bytes parsed */
#define UNKNOWN_MAX  8   /* parsing stops after this many unknown words */
#define UNKNOWN_RANK 4   /* after this many, a rank in brackets is not the writer's */
#define MATCH_LIMIT  20000

/* The parts of a token; their names in the expressions. */
enum part {
	HOST,
	PID,
	DEVICE,
	RANK,
	MONTH,
	DAY,
	HOUR,
	MINUTE,
	SECOND,
	FRACTION,
	PARTS
};
static const char *const part_names[PARTS] = { "host", "pid",  "device", "rank",   "month",
					       "day",  "hour", "minute", "second", "fraction" };

#define CLOCK "(?<hour>\\d\\d):(?<minute>\\d\\d):(?<second>\\d\\d)(?:[.,](?<fraction>\\d+))?"

/* The first row that matches takes its token. */
static const struct token {
	const char *looks; /* regular expression, anchored */
	enum {
		TIME,    /* the message may begin before it */
		IN_TEXT, /* names the writer, and the message follows; not after UNKNOWN_RANK unknown words */
		OWN,     /* the same; its rank replaces the one in the label of a launcher */
		FIRST,   /* the same; only times and fillers precede it */
		LAST,    /* the same; nothing follows */
	} kind;
} tokens[] = {
	/* 2025-03-05T10:00:00.123+01:00; '/' may replace '-', and a blank the T. The time zone is ignored. */
	{ "\\d{4}[-/](?<month>\\d\\d)[-/](?<day>\\d\\d)[T ]" CLOCK "[\\dZ+:-]*", TIME },
	/* glog: E0501 10:00:00.123456; torch omits the leading zero of the month. */
	{ "[IWEFVD](?<month>\\d\\d?)(?<day>\\d\\d) " CLOCK, TIME },
	/* NCCL: host:pid:tid [device]. The host may contain colons. */
	{ "(?<host>[\\w.:-]+):(?<pid>\\d+):\\d+ \\[(?<device>\\d{1,4})\\]", LAST },
	/* [rank3], [rank: 3] */
	{ "\\[(?:rank|RANK)[ :]*(?<rank>\\d{1,7})[\\]:/]:?", OWN },
	/* [Rank 3]: in a process group, which may have fewer ranks than the job */
	{ "\\[Rank[ :]*(?<rank>\\d{1,7})[\\]:/]:?", IN_TEXT },
	/* mpirun: [1,3]<stdout>: */
	{ "\\[\\d{1,7},(?<rank>\\d{1,7})\\]<std[^: ]*:?", FIRST },
	/* Ray: (ClassName pid=123, ip=10.0.0.3) */
	{ "\\([^)]*?pid=(?<pid>\\d+)(?:[^)]*?ip=(?<host>[\\w.-]*))?[^)]*\\)", FIRST },
	/* srun -l: "3: " */
	{ "(?<rank>\\d{1,7}): ", FIRST },
	/* pdsh: "node3: ". A host label has a digit, but not first, and no upper case or '_'. */
	{ "(?<host>(?=[^:]*\\d)[a-z.-][a-z0-9.-]*): ", FIRST },
};

/* The tokens, compiled on their first use. */
static struct compiled {
	pcre2_code *code;
	int numbers[PARTS]; /* of the groups that are the parts; negative = it has none */
} compiled[ARRAY_SIZE(tokens)];

/* A token in a line. */
struct found {
	const char *parts[PARTS]; /* NULL = it has no such part */
	size_t bytes[PARTS];
	const char *end;
};

static void compile(const char *looks, struct compiled *c)
{
	size_t where;
	int error;

	c->code = pcre2_compile((PCRE2_SPTR)looks, PCRE2_ZERO_TERMINATED,
				PCRE2_ANCHORED | PCRE2_NEVER_UTF, &error, &where, NULL);
	if (!c->code)
		memory_failed();
	/* The result is ignored: without JIT, matching only is slower. */
	pcre2_jit_compile(c->code, PCRE2_JIT_COMPLETE);
	for (int i = 0; i < PARTS; i++)
		c->numbers[i] =
			pcre2_substring_number_from_name(c->code, (PCRE2_SPTR)part_names[i]);
}

static bool match(size_t token, const char *p, const char *end, struct found *found)
{
	static pcre2_match_data *data;
	static pcre2_match_context *context;
	struct compiled *c = &compiled[token];
	const PCRE2_SIZE *ends;

	if (!data) {
		data = pcre2_match_data_create(PARTS + 1, NULL);
		context = pcre2_match_context_create(NULL);
		if (!data || !context)
			memory_failed();
		pcre2_set_match_limit(context, MATCH_LIMIT);
	}
	if (!c->code)
		compile(tokens[token].looks, c);
	if (pcre2_match(c->code, (PCRE2_SPTR)p, (size_t)(end - p), 0, 0, data, context) < 1)
		return false;
	ends = pcre2_get_ovector_pointer(data);
	for (int i = 0; i < PARTS; i++) {
		int n = c->numbers[i];
		bool set = n > 0 && ends[2 * n] != PCRE2_UNSET;

		found->parts[i] = set ? p + ends[2 * n] : NULL;
		found->bytes[i] = set ? ends[2 * n + 1] - ends[2 * n] : 0;
	}
	found->end = p + ends[1];
	return true;
}

/* Returns the number; -1 = there is none, or it is too large for an int. */
static int number(const struct found *found, enum part part)
{
	long value = 0;

	for (size_t i = 0; i < found->bytes[part] && value <= INT32_MAX; i++)
		value = value * 10 + (found->parts[part][i] - '0');
	return found->parts[part] && value < INT32_MAX ? (int)value : -1;
}

static void take_time(struct origin *origin, const struct found *found)
{
	int64_t days = number(found, MONTH) * 31 + number(found, DAY), unit = 100000;
	int64_t seconds =
		number(found, HOUR) * 3600 + number(found, MINUTE) * 60 + number(found, SECOND);

	if (origin->time_us != ORIGIN_NO_TIME)
		return;
	origin->time_us = (days * 86400 + seconds) * 1000000;
	for (size_t i = 0; i < found->bytes[FRACTION]; i++, unit /= 10)
		origin->time_us += unit * (found->parts[FRACTION][i] - '0');
}

/* `replaces`: its rank replaces the one that `origin` has. */
static void take_writer(struct origin *origin, const struct found *found, bool replaces)
{
	size_t bytes = anynet_min(found->bytes[HOST], ORIGIN_HOST - 1);

	if (found->parts[HOST]) {
		memcpy(origin->host, found->parts[HOST], bytes);
		origin->host[bytes] = '\0';
	}
	if (found->parts[PID])
		origin->pid = number(found, PID);
	if (found->parts[DEVICE])
		origin->device = number(found, DEVICE);
	if (found->parts[RANK] && (replaces || origin->rank < 0))
		origin->rank = number(found, RANK);
}

/* Returns the token that begins at `p`, or NULL. */
static const struct token *token_at(const char *p, const char *end, bool first, int unknown,
				    struct found *found)
{
	for (size_t i = 0; i < ARRAY_SIZE(tokens); i++) {
		const struct token *token = &tokens[i];

		if ((token->kind == FIRST && !first) ||
		    ((token->kind == IN_TEXT || token->kind == OWN) && unknown >= UNKNOWN_RANK))
			continue;
		if (match(i, p, end, found) && !(found->parts[PID] && number(found, PID) < 0))
			return token;
	}
	return NULL;
}

static bool is_filler(char c)
{
	return c == ' ' || c == '\t' || c == '[' || c == ']' || c == '\0' || c == ':' || c == '|';
}

void origin_parse(struct origin *origin, const char *line, size_t bytes)
{
	const char *p = line, *end = line + anynet_min(bytes, HEAD);
	bool first = true, labelled = false;
	int unknown = 0;

	*origin = (struct origin){ .device = -1, .rank = -1, .time_us = ORIGIN_NO_TIME };
	while (p < end && unknown < UNKNOWN_MAX) {
		struct found found;
		const struct token *token = token_at(p, end, first, unknown, &found);

		if (token && token->kind == TIME) {
			take_time(origin, &found);
			p = found.end;
		} else if (token) {
			take_writer(origin, &found, labelled && token->kind == OWN);
			p = found.end;
			origin->message = (size_t)(p - line);
			labelled = first && token->kind == FIRST;
			first = false;
			if (token->kind == LAST)
				break;
		} else if (is_filler(*p)) {
			p++;
		} else {
			/* The message begins at this unknown word, unless a known token follows it. */
			while (p < end && *p != ' ' && *p != '[')
				p++;
			first = false;
			unknown++;
		}
	}
	while (origin->message < bytes && (line[origin->message] == ' ' || !line[origin->message]))
		origin->message++;
}
