/* SPDX-License-Identifier: Apache-2.0 */
/* Parser of the corpus. */
#include "corpus.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void refuse(const char *file, int line, const char *why)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, why);
	exit(1);
}

static void *resized(void *old, size_t bytes)
{
	void *memory = realloc(old, bytes);

	if (!memory)
		abort();
	return memory;
}

static char *copy(const char *text)
{
	char *text_copy = strdup(text);

	if (!text_copy)
		abort();
	return text_copy;
}

static struct corpus_case *add_case(struct corpus *corpus, const char *name)
{
	struct corpus_case *c;

	corpus->cases = resized(corpus->cases, (corpus->count + 1) * sizeof(*corpus->cases));
	c = &corpus->cases[corpus->count++];
	*c = (struct corpus_case){ .name = copy(name), .text = copy("") };
	return c;
}

static bool add_line(struct corpus_case *c, const char *line, bool is_cause)
{
	size_t bytes = strlen(line);

	if (c->line_count == CORPUS_LINES)
		return false;
	c->text = resized(c->text, c->bytes + bytes + 2);
	memcpy(c->text + c->bytes, line, bytes);
	c->text[c->bytes + bytes] = '\n';
	c->text[c->bytes + bytes + 1] = '\0';
	c->bytes += bytes + 1;
	c->causes[++c->line_count] = is_cause;
	return true;
}

/* Parses one line of a file. NULL = valid, otherwise the error. */
static const char *take_line(struct corpus *corpus, const char *line)
{
	struct corpus_case *c = corpus->count ? &corpus->cases[corpus->count - 1] : NULL;

	if (!*line || *line == '#')
		return NULL;
	if (!strncmp(line, "== ", 3)) {
		add_case(corpus, line + 3);
		return NULL;
	}
	if (!c)
		return "before the first ==";
	if ((*line == '|' || *line == '>') && (line[1] == ' ' || !line[1]))
		return add_line(c, line[1] ? line + 2 : "", *line == '>') ? NULL : "too many lines";
	if (!strncmp(line, "from ", 5) && !c->from)
		c->from = copy(line + 5);
	else if (!strncmp(line, "says ", 5) && !c->says)
		c->says = copy(line + 5);
	else if (!strncmp(line, "not ", 4) && !c->says_not)
		c->says_not = copy(line + 4);
	else if (!strcmp(line, "healthy"))
		c->healthy = true;
	else
		return "none of ==, from, says, not, healthy, | and >";
	return NULL;
}

static void read_file(struct corpus *corpus, const char *file)
{
	FILE *in = fopen(file, "re");
	size_t room = 0, before = corpus->count;
	char *line = NULL;
	ssize_t bytes;
	int number = 0;

	if (!in)
		refuse(file, 0, "cannot be read");
	while ((bytes = getline(&line, &room, in)) >= 0) {
		const char *why;

		number++;
		if (bytes && line[bytes - 1] == '\n')
			line[bytes - 1] = '\0';
		why = take_line(corpus, line);
		if (why)
			refuse(file, number, why);
	}
	free(line);
	fclose(in);
	for (size_t i = before; i < corpus->count; i++) {
		const struct corpus_case *c = &corpus->cases[i];
		int causes = 0;

		for (int l = 1; l <= c->line_count; l++)
			causes += c->causes[l];
		if (!c->from || c->healthy != !causes)
			refuse(file, number, c->name);
		for (size_t j = 0; j < i; j++)
			if (!strcmp(corpus->cases[j].name, c->name))
				refuse(file, number, c->name);
	}
}

struct corpus *corpus_read(char *const *files, int file_count)
{
	struct corpus *corpus = calloc(1, sizeof(*corpus));

	if (!corpus)
		abort();
	for (int i = 0; i < file_count; i++)
		read_file(corpus, files[i]);
	return corpus;
}

void corpus_free(struct corpus *corpus)
{
	for (size_t i = 0; i < corpus->count; i++) {
		struct corpus_case *c = &corpus->cases[i];

		free(c->name);
		free(c->from);
		free(c->says);
		free(c->says_not);
		free(c->text);
	}
	free(corpus->cases);
	free(corpus);
}

bool corpus_is_working(const struct corpus_case *c)
{
	uint32_t hash = 2166136261u;

	for (const char *p = c->name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 16777619u;
	return !(hash >> 16 & 1);
}

bool corpus_is_constructed(const struct corpus_case *c)
{
	return !strncmp(c->from, "constructed", strlen("constructed"));
}
