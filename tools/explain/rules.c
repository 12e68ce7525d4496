/* SPDX-License-Identifier: Apache-2.0 */
/* The table of rules: filter keys, matching, checks. rules_parse.c reads rule files. */
#include "rules.h"

#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/clean.h"
#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define GRAM        3
#define GRAM_BITS   18
#define BLANK_SCORE 60 /* penalty for a key with a blank */
#define VALUE_BYTES 160 /* of a field in a text */

/* Text that NCCL logs in normal operation. Keys should not resemble it. */
static const char everyday[] =
	"NCCL INFO Channel 00/02 :    0   1   2   3   4   5   6   7 "
	"NCCL INFO Channel 01/0 : 3[3] -> 4[4] [send] via NET/IB/0(1)/GDRDMA/Shared "
	"NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC/read P2P/CUMEM via NET/Socket/0/Shared "
	"NCCL INFO Connected all rings, use ring PXN 0 GDR 1 Connected all trees "
	"NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 "
	"NCCL INFO comm 0x55d5c8 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0 "
	"NCCL INFO threadThresholds 8/8/64 | 16/8/64 | 512 | 512 "
	"NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels "
	"NCCL INFO ncclCommInitRankConfig comm 0x5 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 "
	"commId 0x Init START Init COMPLETE NCCL INFO Setting affinity for GPU 0 to ffff,ffffffff "
	"NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0 Using network Socket "
	"NCCL INFO AllReduce: opCount 1f sendbuff 0x7f recvbuff 0x7f count 1048576 datatype 7 op 0 "
	"root 0 comm 0x55 [nranks=16] stream 0x55 [default0]: [rank0]: epoch step loss iteration "
	"NCCL INFO P2P Chunksize set to 131072 proxy NVLS multicast support is not available on dev ";

const char *rule_kind_text(enum rule_kind kind)
{
	static const char *const names[] = {
		[RULE_ERROR] = "error",       [RULE_WARNING] = "warning",
		[RULE_HARMLESS] = "harmless", [RULE_FOLLOWS] = "follows",
		[RULE_DIFFER] = "differ",     [RULE_WHO] = "who",
		[RULE_BEHIND] = "behind",     [RULE_UNKNOWN] = "unknown",
		[RULE_PROGRAM] = "program",   [RULE_NEXT] = "next",
		[RULE_TRACE] = "trace",       [RULE_END] = "end",
	};

	return names[kind];
}

bool rule_is_general(const struct rule *rule)
{
	return rule->kind == RULE_UNKNOWN || rule_is_program(rule) || rule_awaits(rule);
}

bool rule_is_program(const struct rule *rule)
{
	return rule->kind == RULE_PROGRAM || rule->kind == RULE_TRACE;
}

bool rule_awaits(const struct rule *rule)
{
	return rule->kind == RULE_NEXT || rule->kind == RULE_TRACE;
}

bool rule_is_additional(const struct rule *rule)
{
	return rule->kind == RULE_DIFFER || rule->kind == RULE_WHO || rule->kind == RULE_BEHIND;
}

struct rules *rules_new(void)
{
	return memory_get(sizeof(struct rules));
}

void rules_free(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		for (int line = 0; line < rules->rules[i]->line_count; line++)
			pattern_free(rules->rules[i]->lines[line]);
	}
}

/* --- keys --- */

/* Hashes three bytes. A collision only makes the choice of a key slightly worse. */
static uint32_t gram(const char *p)
{
	uint32_t v = (uint32_t)(unsigned char)p[0] << 16 | (uint32_t)(unsigned char)p[1] << 8 |
		     (unsigned char)p[2];

	return v * 2654435761u >> (32 - GRAM_BITS);
}

static void count_grams(uint16_t *counts, const char *text, uint16_t weight)
{
	for (size_t i = 0, bytes = strlen(text); i + GRAM <= bytes; i++) {
		uint16_t *count = &counts[gram(text + i)];

		*count = (uint16_t)anynet_min(*count + weight, UINT16_MAX);
	}
}

/*
 * Returns the seven bytes of the pattern's text whose trigrams are rarest. Keys with a blank are avoided, because a
 * log may have several blanks where the pattern has one.
 */
static const char *choose_key(const struct pattern *pattern, const uint16_t *counts)
{
	unsigned best_score = UINT32_MAX;
	const char *best = NULL, *run;

	for (int i = 0; (run = pattern_run(pattern, i)); i++) {
		for (const char *p = run; strlen(p) >= PATTERN_KEY; p++) {
			unsigned score = 0;

			for (int at = 0; at + GRAM <= PATTERN_KEY; at++)
				score += counts[gram(p + at)];
			if (memchr(p, ' ', PATTERN_KEY))
				score += BLANK_SCORE;
			if (score < best_score) {
				best_score = score;
				best = p;
			}
		}
	}
	return best;
}

static void build_filter(struct rules *rules)
{
	uint16_t *counts = memory_get((1u << GRAM_BITS) * sizeof(*counts));
	const char **keys = memory_get(rules->line_count * sizeof(*keys)), *run;

	count_grams(counts, everyday, 50);
	for (size_t i = 0; i < rules->line_count; i++)
		for (int r = 0; (run = pattern_run(rules->lines[i].pattern, r)); r++)
			count_grams(counts, run, 1);
	for (size_t i = 0; i < rules->line_count; i++)
		keys[i] = choose_key(rules->lines[i].pattern, counts);
	rules->filter = filter_new(keys, rules->line_count);
}

char *rules_finish(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		rules->line_count += (size_t)rules->rules[i]->line_count;
	if (rules->line_count > UINT16_MAX)
		return text_format("%zu patterns exceed the limit", rules->line_count);
	rules->lines = memory_get(rules->line_count * sizeof(*rules->lines));
	for (size_t i = 0, n = 0; i < rules->count; i++) {
		struct rule *rule = rules->rules[i];

		rule->number = (int)i;
		for (int j = 0; j < rule->line_count; j++)
			rules->lines[n++] = (struct rule_line){ rule, rule->lines[j] };
	}
	build_filter(rules);
	return NULL;
}

/* --- matching --- */

static bool matches(const struct rule *rule, const char *line, size_t bytes, struct match *match)
{
	for (int i = 0; i < rule->line_count; i++)
		if (pattern_match(rule->lines[i], line, bytes, match))
			return true;
	return false;
}

struct rule *rules_find(struct rules *rules, const char *line, size_t bytes, struct match *match)
{
	for (size_t i = 0; i < rules->count; i++) {
		struct rule *rule = rules->rules[i];

		if (!rule_is_additional(rule) && matches(rule, line, bytes, match))
			return rule;
	}
	return NULL;
}

static char *check_sample(struct rules *rules, const struct rule *rule, const char *sample)
{
	const struct rule *found;
	struct match match;

	if (rule_is_additional(rule))
		found = matches(rule, sample, strlen(sample), &match) ? rule : NULL;
	else
		found = rules_find(rules, sample, strlen(sample), &match);
	return found == rule
		       ? NULL
		       : text_format("rule %s (line %d): its sample matches %s: %.300s", rule->id,
				     rule->at, found ? found->id : "no rule", sample);
}

/* Checks that each pattern of the rule matches one of its samples. */
static char *check_lines(const struct rule *rule)
{
	struct match match;

	for (int i = 0; i < rule->line_count; i++) {
		int j = 0;

		while (j < rule->sample_count && !pattern_match(rule->lines[i], rule->samples[j],
								strlen(rule->samples[j]), &match))
			j++;
		if (j == rule->sample_count)
			return text_format("rule %s (line %d): no sample for: %.300s", rule->id,
					   rule->at, pattern_text(rule->lines[i]));
	}
	return NULL;
}

static char *compile_lines(const struct rule *rule)
{
	for (int i = 0; i < rule->line_count; i++) {
		const char *why = pattern_compile(rule->lines[i]);

		if (why)
			return text_format("rule %s (line %d): %s", rule->id, rule->at, why);
	}
	return NULL;
}

char *rules_check(struct rules *rules, size_t count)
{
	char *why = NULL;

	for (size_t i = 0; i < count && !why; i++)
		why = compile_lines(rules->rules[i]);
	for (size_t i = 0; i < count && !why; i++) {
		const struct rule *rule = rules->rules[i];

		why = check_lines(rule);
		for (int j = 0; j < rule->sample_count && !why; j++)
			why = check_sample(rules, rule, rule->samples[j]);
	}
	return why;
}

char *rules_expand(const char *text, const struct match *match)
{
	char *out = text_dup(""), value[VALUE_BYTES];

	for (;;) {
		const char *open = strchrnul(text, '{'), *end = strchr(open, '}');
		const struct field *field =
			end ? match_field(match, text_copy(open + 1, (size_t)(end - open - 1)))
			    : NULL;

		if (!*open)
			return text_format("%s%s", out, text);
		if (!field)
			end = open++;
		else
			clean(value, sizeof(value), field->data, field->bytes);
		out = text_format("%s%.*s%s", out, (int)(open - text), text, field ? value : "");
		text = end + 1;
	}
}
