/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's lists of device names; see name_filter.h. */
#include "name_filter.h"

#include <stddef.h>
#include <string.h>

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
	int port; /* -1 = any; -2 = not a number, so none */
};

static int parse_port(const char *text, const char *end)
{
	int port = 0;

	if (text == end || *text == ':')
		return -1;
	for (; text < end && *text != ':'; text++) {
		if (*text < '0' || *text > '9' || port > 65535)
			return -2;
		port = port * 10 + (*text - '0');
	}
	return port;
}

/* The item at *rest, which moves behind it. False at the end of the list. */
static bool next_item(const char **rest, struct item *item)
{
	while (**rest == ',')
		(*rest)++;
	if (!**rest)
		return false;
	const char *end = *rest + strcspn(*rest, ",");

	item->name = *rest;
	item->name_bytes = strcspn(*rest, ":,");
	item->port = -1;
	if (item->name[item->name_bytes] == ':')
		item->port = parse_port(item->name + item->name_bytes + 1, end);
	*rest = end;
	return true;
}

static bool item_matches(const struct item *item, bool exact, const char *name, int port)
{
	if (strncmp(name, item->name, item->name_bytes) || (exact && name[item->name_bytes]))
		return false;
	return port == -1 || item->port == -1 || item->port == port;
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
	/* In NCCL a list without names matches every name, so "^" alone excludes all of them. */
	return (matched || empty) != list.exclude;
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
