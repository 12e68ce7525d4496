/* SPDX-License-Identifier: Apache-2.0 */
#include "script.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_flag(bool *flag, const char *words)
{
	*flag = !strcmp(words, "on");
	return *flag || !strcmp(words, "off") ? 0 : -EINVAL;
}

static int obey_line(const struct script *script, char *line, bool devices_fixed)
{
	char *words, *end = line + strcspn(line, "#");
	size_t length;

	*end = '\0';
	while (end > line && strchr(" \t\r", end[-1]))
		*--end = '\0';
	line += strspn(line, " \t\r");
	if (!*line)
		return 0;
	length = strcspn(line, " \t");
	words = line + length + strspn(line + length, " \t");
	for (const struct script_command *at = script->commands; at < script->commands + script->count; at++)
		if (strlen(at->name) == length && !strncmp(at->name, line, length) && !(at->describes && devices_fixed))
			return at->flag ? set_flag(at->flag, words) : at->run(words);
	return -EINVAL;
}

int script_obey(const struct script *script, const char *text, bool devices_fixed)
{
	char copy[SCRIPT_BYTES], told[SCRIPT_BYTES], *rest = copy, *line;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	while ((line = strtok_r(rest, "\n;", &rest))) {
		strcpy(told, line);
		if (obey_line(script, line, devices_fixed)) {
			fprintf(stderr, "fake %s: not understood: %s\n", script->fake, told);
			return -EINVAL;
		}
	}
	return 0;
}

int script_of(const char *variable, const char *otherwise, char text[SCRIPT_BYTES])
{
	const char *value = getenv(variable);
	FILE *stream;
	size_t got;

	if (!value || *value != '/') {
		snprintf(text, SCRIPT_BYTES, "%s", value ? value : otherwise);
		return 0;
	}
	stream = fopen(value, "re");
	if (!stream) {
		fprintf(stderr, "%s: %s: %s\n", variable, value, strerror(errno));
		return errno;
	}
	got = fread(text, 1, SCRIPT_BYTES - 1, stream);
	text[got] = '\0';
	fclose(stream);
	return 0;
}
