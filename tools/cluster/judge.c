/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of a run; see judge.h. */
#include "judge.h"

#include <string.h>

#include <nccl_net/util.h>

#include "baseline.h"
#include "blame.h"
#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/hosts.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"
#include "tools/shared/text.h"

#define SLOW    0.5  /* bandwidth below this share of the median is slow */
#define LATE    3.0  /* minimum round trips above this multiple of their median are high */
#define LATE_US 50.0 /* microseconds; smaller differences from the median are ignored */

/* Faults of pairs, as `anynet pair` reports them; pairs with the same one are blamed together. */
enum group {
	BROKEN,
	LOSS,
	NAT,
	MTU,
	CLOCK,
	OTHER,
	GROUPS
};

static const struct {
	const char *kind, *label;
} groups[GROUPS] = {
	[BROKEN] = { "broken", "broken" },        [LOSS] = { "loss", "packets are lost" },
	[NAT] = { "nat", "address translation" }, [MTU] = { "mtu", "different MTU" },
	[CLOCK] = { "clock", "clocks differ" },   [OTHER] = { "other", "other problem" },
};

static enum group group_of(const json_t *finding)
{
	const char *kind = member_text(finding, "id");

	if (!strcmp(member_text(finding, "level"), "error"))
		return BROKEN;
	for (enum group g = BROKEN; g < OTHER; g++) {
		if (!strcmp(groups[g].kind, kind))
			return g;
	}
	return OTHER;
}

struct gathered {
	const struct matrix *m;
	double mb_s, us; /* medians of bandwidths and of minimum round trips */
	struct blame *by[GROUPS], *slow, *late, *slower, *later;
	json_t *lists; /* keeps the findings alive to whose texts `by` points */
};

static bool is_slow(const struct gathered *k, size_t a, size_t b)
{
	double mb_s = matrix_at(k->m, a, b)->mb_s;

	return mb_s > 0 && mb_s < SLOW * k->mb_s;
}

/* The names of the hosts of a measured pair. */
static struct verdict_hosts hosts_of(const struct matrix *m, size_t a, size_t b)
{
	bool backwards = matrix_at(m, a, b)->backwards;

	return (struct verdict_hosts){ m->names[backwards ? b : a], m->names[backwards ? a : b] };
}

static void take_finding(struct gathered *k, size_t a, size_t b, const json_t *finding)
{
	enum group group = group_of(finding);
	const char *why = member_text(finding, "why"), *fix = member_text(finding, "fix");
	const char *id = member_text(finding, "id"), *ends = "";
	struct verdict_hosts hosts = hosts_of(k->m, a, b);

	if (!strcmp(member_text(finding, "level"), "note"))
		return;
	/* take_figures compares rates with the median of all pairs instead. */
	if (!strcmp(id, "lopsided"))
		return;
	/* The fix of `anynet pair` refers to `anynet serve`, which nobody has run here. */
	if (!strcmp(id, "failure")) {
		why = "This pair could not be measured; most likely NCCL cannot connect it.";
		fix = "Check firewalls, routes and interfaces between the two; --port sets a "
		      "fixed port for this test.";
	}
	/* These hold the error of one host about "the other host": name the two. */
	if (!strcmp(id, "failure") || !strcmp(id, "plugin"))
		ends = text_format("from %s to %s: ", hosts.client, hosts.server);
	blame_pair(k->by[group], a, b,
		   &(struct advice){
			   .level = member_text(finding, "level"), .why = why, .fix = fix },
		   "%s%.600s", ends, member_text(finding, "finding"));
}

static void take_pair(struct gathered *k, size_t a, size_t b)
{
	const json_t *link = matrix_at(k->m, a, b)->link, *finding;
	struct verdict_hosts hosts = hosts_of(k->m, a, b);
	json_t *list = verdict_link(json_object_get(link, "measured"), &hosts);
	size_t i;

	json_array_append_new(k->lists, list);
	json_array_foreach (list, i, finding)
		take_finding(k, a, b, finding);
}

static void take_figures(struct gathered *k, size_t a, size_t b)
{
	const struct matrix *m = k->m;
	const struct cell *cell = matrix_at(m, a, b);

	if (blame_has(k->by[BROKEN], a, b) || blame_has(k->by[LOSS], a, b))
		return;
	if (is_slow(k, a, b) || is_slow(k, b, a)) {
		blame_pair(k->slow, a, b,
			   &(struct advice){
				   .level = "warning",
				   .why = "A collective is as fast as its slowest link. Possible "
					  "causes: a port at a lower speed, a bad cable, a shaper, "
					  "or a busy host.",
				   .fix = "Check speed and error counters of its NIC and switch "
					  "port (`ethtool`, `ethtool -S`), and run `anynet pair` "
					  "between the two." },
			   "%s to %s %.3f GB/s, %s to %s %.3f GB/s; the median of all is %.3f",
			   m->names[a], m->names[b], cell->mb_s / 1e3, m->names[b], m->names[a],
			   matrix_at(m, b, a)->mb_s / 1e3, k->mb_s / 1e3);
	}
	if (cell->us_least > LATE * k->us && cell->us_least > k->us + LATE_US) {
		blame_pair(
			k->late, a, b,
			&(struct advice){
				.level = "warning",
				.why = "Small collectives and the ends of large ones wait for "
				       "it. Possible causes: a detour, a full queue, or power "
				       "saving.",
				.fix = "Compare the routes (`tracepath`), and the CPU governors of the hosts." },
			"%s and %s: minimum round trip %.1f us; the median of all is %.1f us",
			m->names[a], m->names[b], cell->us_least, k->us);
	}
}

/* Reports pairs that use TCP if any pair uses InfiniBand or RoCE. */
static void take_paths(json_t *findings, const struct matrix *m)
{
	struct blame *other = blame_new(m, "path", "TCP, others have InfiniBand or RoCE");
	size_t ib = 0;

	for (size_t a = 0; a < m->hosts; a++) {
		for (size_t b = a + 1; b < m->hosts; b++) {
			const struct cell *cell = matrix_at(m, a, b);

			if (!cell->link)
				continue;
			ib += !strcmp(cell->path, "IB");
			if (!strcmp(cell->path, "TCP"))
				blame_pair(
					other, a, b,
					&(struct advice){
						.level = "warning",
						.why = "Such pairs are slower, and slow down the "
						       "whole job.",
						.fix = "Run `anynet devices` on the host without "
						       "verbs device, or `anynet pair` between "
						       "the two." },
					"over TCP");
		}
	}
	if (ib)
		blame_tell(other, findings);
}

static void gather(struct gathered *k, const struct matrix *m, const struct matrix *old)
{
	*k = (struct gathered){
		.m = m,
		.mb_s = matrix_spread(m, FIGURE_MB_S).median,
		.us = matrix_spread(m, FIGURE_US_LEAST).median,
		.slow = blame_new(m, "slow", "slow"),
		.late = blame_new(m, "latency", "high latency"),
		.slower = blame_new(m, "slower", "slower than earlier"),
		.later = blame_new(m, "later", "higher latency than earlier"),
		.lists = json_array(),
	};
	for (enum group g = BROKEN; g < GROUPS; g++)
		k->by[g] = blame_new(m, groups[g].kind, groups[g].label);
	for (size_t a = 0; a < m->hosts; a++) {
		for (size_t b = a + 1; b < m->hosts; b++) {
			if (!matrix_at(m, a, b)->link)
				continue;
			take_pair(k, a, b);
			take_figures(k, a, b);
		}
	}
	if (old)
		compare_links(k->slower, k->later, m, old);
}

static void tell(const struct gathered *k, json_t *findings)
{
	for (enum group g = BROKEN; g < GROUPS; g++)
		blame_tell(k->by[g], findings);
	blame_tell(k->slow, findings);
	blame_tell(k->late, findings);
	blame_tell(k->slower, findings);
	blame_tell(k->later, findings);
}

/* Reports the hosts whose worker could not be started or failed. */
static void missing(json_t *findings, const json_t *hosts)
{
	const json_t *host;
	size_t i;

	json_array_foreach (hosts, i, host) {
		const char *error = member_text(host, "error");

		if (!*error)
			continue;
		judge_add(findings,
			  &(struct advice){
				  "missing", "error", "Measurements with this host are missing.",
				  "Check that login to the host works, and that the same version "
				  "of anynet is installed there." },
			  "%.64s: %.600s", member_text(host, "name"), error);
		finding_concerns(findings, json_pack("[s]", member_text(host, "name")));
	}
}

json_t *judge(const json_t *doc, const json_t *before)
{
	json_t *findings = json_array();
	struct matrix m, old = { 0 };
	struct gathered k;
	const char *why;
	bool compared;

	if (matrix_read(doc, &m, &why)) {
		judge_add(findings, &(struct advice){ "missing", "error", "", "" }, "no result: %s",
			  why);
		return findings;
	}
	compared = before && !matrix_read(before, &old, &why);
	missing(findings, json_object_get(doc, "hosts"));
	gather(&k, &m, compared ? &old : NULL);
	tell(&k, findings);
	json_decref(k.lists);
	take_paths(findings, &m);
	judge_hosts(findings, json_object_get(doc, "hosts"));
	judge_ranks(findings, json_object_get(doc, "hosts"));
	if (compared)
		compare_names(findings, &m, &old);
	return findings_sorted(findings);
}

/* Whether a repetition may clear the pair, because a momentary load can explain its figures. */
static bool is_unclear(const struct gathered *k, size_t a, size_t b)
{
	const struct blame *const figures[] = { k->slow, k->late, k->slower, k->later,
						k->by[LOSS] };

	if (blame_has(k->by[BROKEN], a, b))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		if (blame_has(figures[i], a, b))
			return true;
	}
	return false;
}

json_t *judge_unclear(const json_t *doc, const json_t *before)
{
	json_t *pairs = json_array();
	struct matrix m, old = { 0 };
	struct gathered k;
	const char *why;

	if (matrix_read(doc, &m, &why))
		return pairs;
	gather(&k, &m, before && !matrix_read(before, &old, &why) ? &old : NULL);
	for (size_t a = 0; a < m.hosts; a++) {
		for (size_t b = a + 1; b < m.hosts; b++) {
			if (is_unclear(&k, a, b))
				json_array_append_new(pairs, json_pack("[I, I]", (json_int_t)a,
								       (json_int_t)b));
		}
	}
	json_decref(k.lists);
	return pairs;
}
