/* SPDX-License-Identifier: Apache-2.0 */
/* The typo guard of the settings; see config_names.h. */
#include "config_names.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <nccl_net/config.h>
#include <nccl_net/log.h>

#define NAME_MAX_BYTES 63 /* longer names are not compared */
#define FAR            (NAME_MAX_BYTES + 1)

/* Groups of the variables that concern NCCL. An unknown name is compared with group NET only: those are the ones that
 * matter to users of a network plugin. */
enum group {
	NET,
	CORE,
	TORCH,
	OTHERS
};

static const struct {
	const char *name;
	enum group group;
} nccl_names[] = {
#define VARIABLE(group, name, ...) { name, group },
#include "nccl_variables.def"
#undef VARIABLE
};

/* The plugin's variables that are not rows of the settings table (include/nccl_net/log.h). */
static const char *const own_other_names[] = { "ANYNET_DEBUG" };

static size_t min3(size_t a, size_t b, size_t c)
{
	return anynet_min(anynet_min(a, b), c);
}

static bool same_letter(char a, char b)
{
	return anynet_lower(a) == anynet_lower(b);
}

size_t anynet_name_distance(const char *a, const char *b)
{
	unsigned char row[3][NAME_MAX_BYTES + 1]; /* of the matrix: this one and the two before */
	size_t a_bytes = strlen(a), b_bytes = strlen(b);

	if (a_bytes > NAME_MAX_BYTES || b_bytes > NAME_MAX_BYTES)
		return FAR;
	for (size_t j = 0; j <= b_bytes; j++)
		row[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= a_bytes; i++) {
		unsigned char *now = row[i % 3];
		const unsigned char *before = row[(i + 2) % 3], *before2 = row[(i + 1) % 3];

		now[0] = (unsigned char)i;
		for (size_t j = 1; j <= b_bytes; j++) {
			bool same = same_letter(a[i - 1], b[j - 1]);
			size_t best = min3(before[j] + 1u, now[j - 1] + 1u, before[j - 1] + !same);

			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) &&
			    same_letter(a[i - 2], b[j - 1]))
				best = anynet_min(best, before2[j - 2] + 1u);
			now[j] = (unsigned char)best;
		}
	}
	return row[a_bytes % 3][b_bytes];
}

struct nearest {
	const char *name;
	size_t distance;
};

static void nearer(struct nearest *nearest, const char *typed, const char *name)
{
	size_t distance = anynet_name_distance(typed, name);

	if (distance < nearest->distance)
		*nearest = (struct nearest){ name, distance };
}

const char *anynet_config_nearest_own(const char *typed, size_t *distance)
{
	struct nearest nearest = { NULL, FAR + 1 };

	for (size_t i = 0; i < anynet_config_row_count; i++)
		nearer(&nearest, typed, anynet_config_rows[i].name);
	for (size_t i = 0; i < ARRAY_SIZE(own_other_names); i++)
		nearer(&nearest, typed, own_other_names[i]);
	*distance = nearest.distance;
	return nearest.name;
}

bool anynet_config_own_is_near(const char *typed, size_t distance)
{
	return distance <= (strlen(typed) - strlen("ANYNET_")) / 2;
}

static void check_own_name(const char *typed)
{
	size_t distance;
	const char *nearest = anynet_config_nearest_own(typed, &distance);

	if (!strcmp(typed, nearest))
		return;
	if (anynet_config_own_is_near(typed, distance))
		anynet_warn("%.80s is not a setting; did you mean %s?", typed, nearest);
	else
		anynet_warn("%.80s is not a setting; `anynet config` lists them all", typed);
}

/* A short name has many neighbours, so it must match more closely. */
size_t anynet_name_typo_distance(const char *name)
{
	size_t bytes = strlen(name);

	return bytes < 4 ? 0 : bytes < 8 ? 1 : 2;
}

static void check_nccl_name(const char *typed)
{
	struct nearest nearest = { NULL, FAR };

	for (size_t i = 0; i < ARRAY_SIZE(nccl_names); i++) {
		if (!strcmp(typed, nccl_names[i].name))
			return;
		if (nccl_names[i].group == NET)
			nearer(&nearest, typed, nccl_names[i].name);
	}
	if (nearest.distance <= anynet_name_typo_distance(typed + strlen("NCCL_")))
		anynet_warn("%.80s is not a variable of NCCL; did you mean %s?", typed,
			    nearest.name);
}

static bool begins_with(const char *name, const char *prefix)
{
	while (*prefix && same_letter(*name, *prefix))
		name++, prefix++;
	return !*prefix;
}

void anynet_config_check_names(void)
{
	for (char *const *entry = environ; entry && *entry; entry++) {
		char name[128];
		size_t bytes = strcspn(*entry, "=");

		if (bytes >= sizeof(name))
			continue;
		memcpy(name, *entry, bytes);
		name[bytes] = 0;
		if (begins_with(name, "ANYNET_"))
			check_own_name(name);
		else if (begins_with(name, "NCCL_"))
			check_nccl_name(name);
	}
}
