/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's lists of device names; see name_filter.h. */
#include "device/name_filter.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <nccl_net/util.h>

struct list {
	bool exclude, exact;
	const char *items; /* "a,b:1,c" */
};

static struct list open_list(const char *filter)
{
	struct list list = { .items = filter };

	list.exclude = *list.items == '^';
	list.items += list.exclude;
	list.exact = *list.items == '=';
	list.items += list.exact;
	return list;
}

struct item {
	const char *name; /* not terminated */
	size_t name_bytes;
	int fields[3]; /* port, rail, plane; -1 = any; -2 = not a number: matches none */
};

enum {
	PORT,
	RAIL,
	PLANE
};

#define RAIL_MAX  INT16_MAX
#define PLANE_MAX 0x3fff /* NCCL marks planes of fused devices with the next bit */

/* Parses the field at *text and moves *text behind it and its colon. Values as in struct item. */
static int parse_field(const char **text, const char *end)
{
	int number = 0, digits = 0;

	for (; *text < end && **text != ':'; (*text)++, digits++) {
		if (number < 0 || **text < '0' || **text > '9' || number > 65535)
			number = -2;
		else
			number = number * 10 + (**text - '0');
	}
	*text += *text < end;
	return digits ? number : -1;
}

/* Parses the item at *rest and moves *rest behind it. False = end of the list. */
static bool next_item(const char **rest, struct item *item)
{
	while (**rest == ',')
		(*rest)++;
	if (!**rest)
		return false;
	const char *end = *rest + strcspn(*rest, ",");

	item->name = *rest;
	item->name_bytes = strcspn(*rest, ":,");
	*rest = item->name + item->name_bytes;
	*rest += *rest < end;
	for (size_t i = 0; i < ARRAY_SIZE(item->fields); i++)
		item->fields[i] = parse_field(rest, end);
	*rest = end;
	return true;
}

static bool item_matches(const struct item *item, bool exact, const char *name, int port)
{
	if (strncmp(name, item->name, item->name_bytes) || (exact && name[item->name_bytes]))
		return false;
	return port == -1 || item->fields[PORT] == -1 || item->fields[PORT] == port;
}

bool name_filter_pass(const char *filter, const char *name, int port)
{
	struct list list = open_list(filter);
	bool matched = false, empty = true;
	struct item item;

	while (next_item(&list.items, &item)) {
		empty = false;
		matched |= item_matches(&item, list.exact, name, port);
	}
	/* As in NCCL, a list without names matches every name, so "^" alone excludes all. */
	return (matched || empty) != list.exclude;
}

static int within(int number, int most)
{
	return number >= 0 && number <= most ? number : -1;
}

void name_filter_place(const char *filter, const char *name, int port, int *rail, int *plane)
{
	struct list list = open_list(filter);
	struct item item;

	*rail = *plane = -1;
	while (!list.exclude && next_item(&list.items, &item)) {
		if (!item_matches(&item, list.exact, name, port))
			continue;
		*rail = within(item.fields[RAIL], RAIL_MAX);
		*plane = within(item.fields[PLANE], PLANE_MAX);
		return;
	}
}

bool name_filter_excludes(const char *filter)
{
	return *filter == '^';
}

bool name_filter_names(const char *filter, const char *name)
{
	struct list list = open_list(filter);
	struct item item;

	while (!list.exclude && next_item(&list.items, &item)) {
		if (item_matches(&item, true, name, -1))
			return true;
	}
	return false;
}
