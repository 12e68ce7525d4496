/* SPDX-License-Identifier: Apache-2.0 */
/* Converts the result of a pair, which a worker has sent, to a link of the document. */
#include "matrix.h"

#include <math.h>
#include <string.h>

#include "tools/shared/judge/finding.h"
#include "tools/shared/judge/rates.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/member.h"

/* Returns the run that NCCL would use: verbs if they were measured without an error, else TCP. NULL: none. */
static const json_t *best_run(const json_t *plugin)
{
	const json_t *run, *best = NULL;
	size_t i;

	json_array_foreach (plugin, i, run) {
		if (!json_is_object(run) || *member_text(run, "error"))
			continue;
		if (!best || !strcmp(member_text(run, "transport"), "ib"))
			best = run;
	}
	return best;
}

static double positive(double value)
{
	return isfinite(value) && value > 0 ? value : 0;
}

static double lost(const json_t *streams, const char *to)
{
	const json_t *stream;
	size_t i;

	json_array_foreach (streams, i, stream) {
		if (!strcmp(member_text(stream, "to"), to))
			return positive(verdict_loss(stream));
	}
	return 0;
}

static void shorten(json_t *list, size_t most)
{
	while (json_array_size(list) > most)
		json_array_remove(list, json_array_size(list) - 1);
}

/*
 * Limits the size of a result, because the coordinator keeps all of them. A faulty worker must not exhaust its
 * memory.
 */
static json_t *bounded(json_t *result)
{
	json_t *run;
	size_t i;

	if (json_dumpb(result, NULL, 0, JSON_COMPACT) > LINK_BYTES) {
		json_decref(result);
		return json_pack("{s:{s:s, s:s}}", "failure", "step", "measuring this pair",
				 "reason", "its worker sent too many results");
	}
	shorten(json_object_get(result, "ports"), LINK_PORTS);
	shorten(json_object_get(result, "tcp"), LINK_RUNS);
	shorten(json_object_get(result, "plugin"), LINK_RUNS);
	json_array_foreach (json_object_get(result, "plugin"), i, run)
		shorten(json_object_get(run, "runs"), LINK_RUNS);
	return result;
}

json_t *link_new(const char *a, const char *b, json_t *result)
{
	static const char *const kept[] = { "failure", "way", "clock", "ports", "tcp", "plugin" };
	const json_t *run, *runs, *tcp, *latency;
	json_t *measured = json_object(), *findings, *link;
	const char *path;

	result = bounded(result);
	run = best_run(json_object_get(result, "plugin"));
	runs = json_object_get(run, "runs");
	tcp = json_object_get(result, "tcp");
	latency = json_object_get(run, "latency");
	path = member_text(run, "transport");
	findings = verdict_link(result, &(struct verdict_hosts){ a, b });
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		json_t *part = json_object_get(result, kept[i]);

		if (part)
			json_object_set(measured, kept[i], part);
	}
	link = json_pack("{s:s, s:s, s:s, s:s, s:f, s:f, s:[f, f], s:[f, f], s:o}", "a", a, "b", b,
			 "state", findings_status(findings) == 2 ? "broken" : "ok", "path",
			 !strcmp(path, "ib")    ? "IB"
			 : !strcmp(path, "tcp") ? "TCP"
						: "",
			 "us", positive(member_real(latency, "median")), "us_least",
			 positive(member_real(latency, "min")), "mb_s",
			 positive(rates_best(runs, "server")), positive(rates_best(runs, "client")),
			 "lost", lost(tcp, "server"), lost(tcp, "client"), "measured", measured);
	json_decref(findings);
	json_decref(result);
	return link;
}

static double figure(const json_t *link, const char *key, size_t way)
{
	return positive(json_number_value(json_array_get(json_object_get(link, key), way)));
}

static double least(const json_t *link, const json_t *again, const char *key)
{
	double one = positive(member_real(link, key)), other = positive(member_real(again, key));

	return other > 0 && (one <= 0 || other < one) ? other : one;
}

void link_improve(json_t *link, json_t *again)
{
	bool broke = strcmp(member_text(again, "state"), "ok") != 0;
	double best[2], us = least(link, again, "us"), us_least = least(link, again, "us_least");

	for (size_t way = 0; way < 2; way++)
		best[way] = fmax(figure(link, "mb_s", way), figure(again, "mb_s", way));
	/* The losses of both directions must come from one run: take the run that lost less. */
	if (broke || figure(again, "lost", 0) + figure(again, "lost", 1) <
			     figure(link, "lost", 0) + figure(link, "lost", 1))
		json_object_update(link, again);
	if (!broke) {
		json_object_set_new(link, "us", json_real(us));
		json_object_set_new(link, "us_least", json_real(us_least));
		json_object_set_new(link, "mb_s", json_pack("[f, f]", best[0], best[1]));
	}
	json_decref(again);
}
