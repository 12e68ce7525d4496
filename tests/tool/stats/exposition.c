/* SPDX-License-Identifier: Apache-2.0 */
/* See exposition.h. */
#include "exposition.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS_MAX 64
#define NAME_BYTES  80

struct metric {
	char name[NAME_BYTES];
	bool typed, counter, over; /* TYPE has been read; samples of another metric follow */
};

struct check {
	struct metric metrics[METRICS_MAX];
	int count, open; /* of the last samples; -1 = none yet */
	char **series;   /* lines, up to their values */
	size_t series_count;
	const char *why;
};

static bool is_name(const char *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!isalpha((unsigned char)from[i]) && from[i] != '_' &&
		    (!i || !isdigit((unsigned char)from[i])))
			return false;
	return bytes && bytes < NAME_BYTES;
}

static struct metric *find(struct check *check, const char *name, size_t bytes)
{
	for (int i = 0; i < check->count; i++)
		if (strlen(check->metrics[i].name) == bytes &&
		    !memcmp(check->metrics[i].name, name, bytes))
			return &check->metrics[i];
	return NULL;
}

/* "# HELP name text" or "# TYPE name counter" */
static void take_comment(struct check *check, const char *line)
{
	const char *name = line + strlen("# HELP "), *blank;
	bool help = !strncmp(line, "# HELP ", strlen("# HELP "));
	struct metric *metric;
	size_t bytes;

	if (!help && strncmp(line, "# TYPE ", strlen("# TYPE ")) != 0) {
		check->why = "a comment";
		return;
	}
	bytes = strcspn(name, " ");
	blank = name + bytes;
	metric = find(check, name, bytes);
	if (!is_name(name, bytes) || !*blank || !blank[1] || !!metric == help ||
	    check->count == METRICS_MAX || (metric && metric->typed)) {
		check->why = "HELP or TYPE: not a name, twice, or in another order";
		return;
	}
	if (help) {
		memcpy(check->metrics[check->count++].name, name, bytes);
		return;
	}
	metric->typed = true;
	metric->counter = !strcmp(blank, " counter");
	if (!metric->counter && strcmp(blank, " gauge") != 0)
		check->why = "neither counter nor gauge";
	if (metric->counter != (bytes > 6 && !memcmp(blank - 6, "_total", 6)))
		check->why = "counters, and they alone, end in _total";
}

/* After "name{": returns the position after "}". NULL: invalid labels. */
static const char *skip_labels(const char *at)
{
	while (*at != '}') {
		size_t bytes = strcspn(at, "=");

		if (!is_name(at, bytes) || strncmp(at + bytes, "=\"", 2) != 0)
			return NULL;
		for (at += bytes + 2; *at && *at != '"'; at++)
			if (*at == '\\' && !strchr("\\\"n", *++at))
				return NULL;
		if (*at++ != '"' || (*at != ',' && *at != '}'))
			return NULL;
		if (*at == ',' && *++at == '}')
			return NULL;
	}
	return at + 1;
}

static void take_sample(struct check *check, const char *line)
{
	size_t bytes = strcspn(line, "{ ");
	struct metric *metric = find(check, line, bytes);
	const char *at = line + bytes;
	char *end;

	if (!metric || !metric->typed || metric->over) {
		check->why = "a sample before its TYPE, or not with the others";
		return;
	}
	if (check->open >= 0 && metric != &check->metrics[check->open])
		check->metrics[check->open].over = true;
	check->open = (int)(metric - check->metrics);
	if (*at == '{')
		at = skip_labels(at + 1);
	if (!at || *at != ' ') {
		check->why = "labels";
		return;
	}
	strtod(at + 1, &end);
	if (end == at + 1 || *end || isspace((unsigned char)at[1])) {
		check->why = "not a number";
		return;
	}
	if (!(check->series_count & (check->series_count - 1)))
		check->series = realloc(check->series,
					(check->series_count * 2 + 1) * sizeof(*check->series));
	check->series[check->series_count++] = strndup(line, (size_t)(at - line));
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The first duplicate series; NULL = none. */
static const char *find_twice(struct check *check)
{
	if (check->series_count)
		qsort(check->series, check->series_count, sizeof(char *), by_text);
	for (size_t i = 1; i < check->series_count; i++)
		if (!strcmp(check->series[i - 1], check->series[i]))
			return check->series[i];
	return NULL;
}

const char *exposition_check(const char *text)
{
	static char why[512];
	struct check check = { .open = -1 };
	char *copy = strdup(text), *rest = copy, *line;
	const char *twice;

	*why = '\0';
	if (!*text || text[strlen(text) - 1] != '\n')
		snprintf(why, sizeof(why), "no newline at the end");
	while (!*why && (line = strsep(&rest, "\n")) && rest) {
		(*line == '#' ? take_comment : take_sample)(&check, line);
		if (check.why)
			snprintf(why, sizeof(why), "%s: %.400s", check.why, line);
	}
	twice = find_twice(&check);
	if (!*why && twice)
		snprintf(why, sizeof(why), "twice: %.400s", twice);
	for (size_t i = 0; i < check.series_count; i++)
		free(check.series[i]);
	free(check.series);
	free(copy);
	return *why ? why : NULL;
}
