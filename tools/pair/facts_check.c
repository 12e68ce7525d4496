/* SPDX-License-Identifier: Apache-2.0 */
/* Another host's facts, before anybody compares or prints each of them; see facts.h. */
#include "facts.h"

bool facts_within_bounds(const json_t *facts)
{
	return json_is_object(facts) &&
	       json_array_size(json_object_get(facts, "devices")) <= ANYNET_DEVICES_MAX &&
	       json_array_size(json_object_get(facts, "candidates")) <= ANYNET_CANDIDATES_MAX &&
	       json_object_size(json_object_get(facts, "env")) <= FACTS_ENV_MAX;
}
