/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the facts of another host before they are compared or printed; see facts.h. */
#include "facts.h"

#include <stdint.h>

#include <string.h>

#define DEPTH_MAX 8

static bool is_short(const json_t *value, int depth)
{
	json_t *part;
	const char *name;
	size_t i;

	if (json_is_string(value))
		return json_string_length(value) <= FACTS_TEXT_MAX;
	if (depth == DEPTH_MAX)
		return !json_is_array(value) && !json_is_object(value);
	json_array_foreach (value, i, part) {
		if (!is_short(part, depth + 1))
			return false;
	}
	json_object_foreach ((json_t *)(uintptr_t)value, name, part) {
		if (strlen(name) > FACTS_TEXT_MAX || !is_short(part, depth + 1))
			return false;
	}
	return true;
}

bool facts_are_short(const json_t *facts)
{
	return is_short(facts, 0);
}

bool facts_within_bounds(const json_t *facts)
{
	return json_is_object(facts) && facts_are_short(facts) &&
	       json_array_size(json_object_get(facts, "devices")) <= ANYNET_DEVICES_MAX &&
	       json_array_size(json_object_get(facts, "standby")) <= ANYNET_DEVICES_MAX &&
	       json_array_size(json_object_get(facts, "candidates")) <= ANYNET_CANDIDATES_MAX &&
	       json_object_size(json_object_get(facts, "env")) <= FACTS_ENV_MAX;
}
