/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the progress of ranks within each group. */
#include "behind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/memory.h"
#include "tools/shared/text.h"

#define GROUP_BYTES 64
#define RANKS_MAX   4096 /* (group, rank) entries of a finding; further ones are ignored */
#define NAMED_MAX   8    /* ranks listed in {behind} */
#define JITTER      8    /* operations by which healthy ranks may differ */

void behind_add(struct finding *f, const char *group, size_t group_bytes,
		const struct rank_progress *progress)
{
	char name[GROUP_BYTES];
	struct rank_progress *p;

	snprintf(name, sizeof(name), "%.*s", (int)anynet_min(group_bytes, sizeof(name) - 1), group);
	for (size_t i = f->progress_count; i-- > 0;) {
		p = &f->progress[i];
		if (p->rank != progress->rank || p->source != progress->source ||
		    strcmp(p->group, name) != 0)
			continue;
		p->value = anynet_max(p->value, progress->value);
		return;
	}
	if (f->progress_count == RANKS_MAX)
		return;
	f->progress = memory_resize(f->progress, (f->progress_count + 1) * sizeof(*f->progress));
	p = &f->progress[f->progress_count++];
	*p = *progress;
	p->group = text_dup(name);
}

static int by_group_and_value(const void *left, const void *right)
{
	const struct rank_progress *a = left, *b = right;
	int order = strcmp(a->group, b->group);

	if (order)
		return order;
	if (a->value != b->value)
		return a->value < b->value ? -1 : 1;
	return (a->rank > b->rank) - (a->rank < b->rank);
}

/*
 * Returns how many of the `count` ranks, sorted by value, are behind. They are fewer than half (one of two counts),
 * and the gap above them is wider than the spread of the others.
 */
static size_t count_behind(const struct rank_progress *p, size_t count)
{
	unsigned long long apart;

	for (size_t n = 1; n * 2 < count || (n == 1 && count == 2); n++) {
		apart = p[count - 1].value - p[n].value;
		if (p[n].value - p[n - 1].value > apart + (apart ? JITTER : 0))
			return n;
	}
	return 0;
}

/* Whether two processes have the same rank: these are several groups. */
static bool is_ambiguous(const struct rank_progress *p, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (p[i].rank == p[j].rank)
				return true;
	return false;
}

static struct field text_field(const char *name, const char *text)
{
	return (struct field){ name, text, strlen(text) };
}

static void expand(struct finding *f, const struct rank_progress *p, size_t behind, size_t count)
{
	struct text_list ranks = { 0 };
	struct match match = { .field_count = 4 };

	for (size_t i = 0; i < behind && i < NAMED_MAX; i++)
		text_list_add(&ranks, text_format("%d", p[i].name));
	if (behind > NAMED_MAX)
		text_list_add(&ranks, "…");
	match.fields[0] = text_field("behind", text_list_join(&ranks, ranks.count));
	match.fields[1] = text_field("value", text_format("%llu", p[0].value));
	match.fields[2] = text_field("least", text_format("%llu", p[behind].value));
	match.fields[3] = text_field("most", text_format("%llu", p[count - 1].value));
	report_expand(f, &match);
}

bool behind_judge(struct finding *f)
{
	qsort(f->progress, f->progress_count, sizeof(*f->progress), by_group_and_value);
	for (size_t i = 0, next; i < f->progress_count; i = next) {
		size_t behind;

		for (next = i + 1; next < f->progress_count &&
				   !strcmp(f->progress[next].group, f->progress[i].group);
		     next++)
			;
		behind = count_behind(f->progress + i, next - i);
		if (!behind || is_ambiguous(f->progress + i, next - i))
			continue;
		expand(f, f->progress + i, behind, next - i);
		return true;
	}
	return false;
}
