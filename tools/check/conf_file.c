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

static enum conf_flaw flaw_of(const struct conf_entry *entry)
{
	size_t bytes = strlen(entry->value);

	if (strpbrk(entry->name, " \t"))
		return CONF_BLANK_NAME;
	if (!is_ours(entry->name))
		return CONF_FOREIGN;
	if (bytes && entry->value[bytes - 1] == '\r')
		return CONF_CARRIAGE;
	if (*entry->value == '"' || *entry->value == '\'')
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

static void parse_line(const char *text, size_t bytes, struct conf_entry *entry)
{
	const char *equals = memchr(text, '=', bytes);
	size_t name_bytes = equals ? (size_t)(equals - text) : bytes;
	bool whole = copy_part(entry->name, text, name_bytes);

	*entry->value = 0;
	if (equals)
		whole &= copy_part(entry->value, equals + 1, bytes - name_bytes - 1);
	entry->flaw = !equals ? CONF_NO_EQUALS : !whole ? CONF_CUT : flaw_of(entry);
}

void conf_parse(const char *text, conf_visitor *visit, void *context)
{
	struct conf_entry entry = { .line = 0 };

	while (*text) {
		size_t bytes = strcspn(text, "\n");

		entry.line++;
		if (*text != '#' && strspn(text, " \t\r") < bytes) {
			parse_line(text, bytes, &entry);
			visit(&entry, context);
		}
		text += bytes + (text[bytes] == '\n');
	}
}

struct loading {
	const struct host *host;
	struct conf *conf;
	const char *file;
};

/* True for a variable that names a library to load. One from below another root must not apply to
 * this process. */
static bool names_library(const char *name)
{
	size_t bytes = strlen(name);

	return bytes > 4 && !strcasecmp(name + bytes - 4, "_LIB");
}

static void take(const struct conf_entry *entry, void *context)
{
	struct loading *loading = context;
	struct conf *conf = loading->conf;
	struct conf_line *line;

	if (conf->count == LINES_MAX)
		return;
	conf->lines = memory_resize(conf->lines, (conf->count + 1) * sizeof(*conf->lines));
	line = &conf->lines[conf->count++];
	*line = (struct conf_line){ .entry = *entry, .file = loading->file };
	line->taken = entry->flaw != CONF_NO_EQUALS && is_ours(entry->name) &&
		      !(*loading->host->root && names_library(entry->name)) &&
		      !getenv(entry->name) && !setenv(entry->name, entry->value, 0);
}

void conf_load(struct conf *conf, const struct host *host)
{
	const char *named = host_env("NCCL_CONF_FILE");

	*conf = (struct conf){ 0 };
	if (named)
		conf->files[0] = named;
	else if (*host->home)
		conf->files[0] = text_format("%s/.nccl.conf", host->home);
	conf->files[1] = "/etc/nccl.conf";
	for (size_t i = 0; i < ARRAY_SIZE(conf->files); i++) {
		struct loading loading = { host, conf, conf->files[i] };
		const char *path = conf->files[i] ? host_path(host, conf->files[i]) : NULL;
		char *text = path ? host_read(host, path, FILE_MAX_BYTES, NULL) : NULL;

		conf->readable[i] = text != NULL;
		if (text)
			conf_parse(text, take, &loading);
	}
}

const struct conf_line *conf_origin(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->count; i++) {
		if (conf->lines[i].taken && !strcmp(conf->lines[i].entry.name, name))
			return &conf->lines[i];
	}
	return NULL;
}
