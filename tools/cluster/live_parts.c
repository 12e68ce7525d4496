/* SPDX-License-Identifier: Apache-2.0 */
/* Facts in several messages; see live_parts.h. */
#include "live_parts.h"

#define ROWS 300 /* of a message; a row has at most 800 bytes */

static const char *const lists[] = { "processes", "waits", "paths" };
#define LISTS (sizeof(lists) / sizeof(lists[0]))

json_t *live_part(const json_t *facts, size_t *row)
{
	json_t *part = json_pack("{s:O?}", "left_out", json_object_get(facts, "left_out"));
	size_t before = *row, room = ROWS, left = 0;

	for (size_t l = 0; l < LISTS; l++) {
		const json_t *rows = json_object_get(facts, lists[l]);
		json_t *some = json_array();
		size_t count = json_array_size(rows), i = before < count ? before : count;

		before -= i;
		for (; i < count && room; i++, room--)
			json_array_append(some, json_array_get(rows, i));
		left += count - i;
		json_object_set_new(part, lists[l], some);
	}
	*row += ROWS - room;
	return json_pack("{s:o, s:b}", "stats", part, "more", left > 0);
}

json_t *live_join(json_t *facts, const json_t *message)
{
	json_t *part = json_object_get(message, "stats");

	if (!facts && json_is_object(part))
		return json_incref(part);
	for (size_t l = 0; l < LISTS && part; l++)
		json_array_extend(json_object_get(facts, lists[l]),
				  json_object_get(part, lists[l]));
	if (json_is_object(part))
		return facts;
	json_decref(facts);
	return NULL;
}
