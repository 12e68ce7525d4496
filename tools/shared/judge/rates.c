/* SPDX-License-Identifier: Apache-2.0 */
/* Rates that were measured several times; see rates.h. */
#include "rates.h"

#include <math.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/doubles.h"
#include "tools/shared/member.h"

#define LOPSIDED 3.0 /* minimum ratio between the two directions for a finding */

double rates_best(const json_t *runs, const char *to)
{
	const json_t *run;
	double best = 0;
	size_t i;

	json_array_foreach (runs, i, run) {
		double us = member_real(run, "us");

		if (!strcmp(member_text(run, "to"), to) && us > 0)
			best = fmax(best, member_real(run, "bytes") / us);
	}
	return best;
}

void rates_read(struct rates *rates, const json_t *plugin, const char *to)
{
	const json_t *list = json_object_get(json_object_get(plugin, "rates"), to), *rate;
	double only = rates_best(json_object_get(plugin, "runs"), to);
	size_t i;

	rates->count = 0;
	json_array_foreach (list, i, rate) {
		double value = json_number_value(rate);

		if (rates->count < ARRAY_SIZE(rates->of) && isfinite(value) && value > 0)
			rates->of[rates->count++] = value;
	}
	if (!rates->count && only > 0)
		rates->of[rates->count++] = only;
	doubles_sort(rates->of, rates->count);
}

double rates_median(const struct rates *rates)
{
	size_t half = rates->count / 2;

	if (!rates->count)
		return 0;
	return rates->count % 2 ? rates->of[half] : (rates->of[half - 1] + rates->of[half]) / 2;
}

/* The ranges do not overlap: the fastest of `slow` is below the slowest of `fast`. */
static bool is_slower(const struct rates *slow, const struct rates *fast)
{
	double most = slow->of[slow->count - 1];

	return most < fast->of[0] && LOPSIDED * most < rates_median(fast);
}

bool rates_differ(const struct rates *one, const struct rates *other)
{
	return one->count && other->count && (is_slower(one, other) || is_slower(other, one));
}

static void add(json_t *rates, const json_t *runs)
{
	static const char *const ways[] = { "server", "client" };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		double rate = rates_best(runs, ways[i]);
		json_t *list = json_object_get(rates, ways[i]);

		if (!list) {
			list = json_array();
			json_object_set_new(rates, ways[i], list);
		}
		if (rate > 0)
			json_array_append_new(list, json_real(rate));
	}
}

void rates_repeat(json_t *plugin, const json_t *again)
{
	json_t *rates = json_object_get(plugin, "rates");

	if (!rates) {
		rates = json_object();
		json_object_set_new(plugin, "rates", rates);
		add(rates, json_object_get(plugin, "runs"));
	}
	add(rates, json_object_get(again, "runs"));
	if (*member_text(again, "error"))
		json_object_set(plugin, "error", json_object_get(again, "error"));
}
