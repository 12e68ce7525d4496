/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's configuration files; see conf_file.h. */
#include "conf_file.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/shared/memory.h"

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define LINES_MAX      4096

/* True if the variable may be set here. NCCL accepts any name. */
static bool is_ours(const char *name)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

	return (!strncasecmp(name, "NCCL_", 5) || !strncasecmp(name, "ANYNET_", 7)) &&
	       strspn(name, letters) == strlen(name);
}

static enum conf_flaw flaw_of(const struct conf_line *line)
{
	size_t bytes = strlen(line->value);

	if (strpbrk(line->name, " \t"))
		return CONF_BLANK_NAME;
	if (!is_ours(line->name))
		return CONF_FOREIGN;
	if (bytes && line->value[bytes - 1] == '\r')
		return CONF_CARRIAGE;
	if (*line->value == '"' || *line->value == '\'')
		return CONF_QUOTED;
	return CONF_GOOD;
}

/* Returns false if the text was truncated to NCCL's limit. */
static bool copy_part(char *part, const char *text, size_t bytes)
{
	size_t kept = anynet_min(bytes, CONF_TEXT_BYTES - 1);

	memcpy(part, text, kept);
	part[kept] = 0;
	return kept == bytes;
}

static void parse_line(const char *text, size_t bytes, struct conf_line *line)
{
	const char *equals = memchr(text, '=', bytes);
	size_t name_bytes = equals ? (size_t)(equals - text) : bytes;
	bool whole = copy_part(line->name, text, name_bytes);

	if (equals)
		whole &= copy_part(line->value, equals + 1, bytes - name_bytes - 1);
	line->flaw = !equals ? CONF_NO_EQUALS : !whole ? CONF_CUT : flaw_of(line);
}

void conf_parse(struct conf *conf, const char *text, const char *file)
{
	for (unsigned number = 1; *text && conf->count < LINES_MAX; number++) {
		size_t bytes = strcspn(text, "\n");

		if (*text != '#' && strspn(text, " \t\r") < bytes) {
			struct conf_line *line;

			conf->lines = memory_resize(conf->lines,
						    (conf->count + 1) * sizeof(*conf->lines));
			line = &conf->lines[conf->count++];
			*line = (struct conf_line){ .number = number, .file = file };
			parse_line(text, bytes, line);
		}
		text += bytes + (text[bytes] == '\n');
	}
}

/* True for a variable that names a library to load. One from below another root must not apply to
 * this process. */
static bool names_library(const char *name)
{
	size_t bytes = strlen(name);

	return bytes > 4 && !strcasecmp(name + bytes - 4, "_LIB");
}

/* Sets the variable, if NCCL would. */
static void take(const struct host *host, struct conf_line *line)
{
	line->taken = line->flaw != CONF_NO_EQUALS && is_ours(line->name) &&
		      !(*host->root && names_library(line->name)) && !getenv(line->name) &&
		      !setenv(line->name, line->value, 0);
}

void conf_load(struct conf *conf, const struct host *host)
{
	const char *named = host_env("NCCL_CONF_FILE");
	size_t next = 0;

	*conf = (struct conf){ 0 };
	if (named)
		conf->files[0] = named;
	else if (*host->home)
		conf->files[0] = text_format("%s/.nccl.conf", host->home);
	conf->files[1] = "/etc/nccl.conf";
	for (size_t i = 0; i < ARRAY_SIZE(conf->files); i++) {
		const char *path = conf->files[i] ? host_path(host, conf->files[i]) : NULL;
		char *text = path ? host_read(host, path, FILE_MAX_BYTES, NULL) : NULL;

		conf->readable[i] = text != NULL;
		if (text)
			conf_parse(conf, text, conf->files[i]);
		for (; next < conf->count; next++)
			take(host, &conf->lines[next]);
	}
}

const struct conf_line *conf_origin(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->count; i++) {
		if (conf->lines[i].taken && !strcmp(conf->lines[i].name, name))
			return &conf->lines[i];
	}
	return NULL;
}
