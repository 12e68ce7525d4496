/* SPDX-License-Identifier: Apache-2.0 */
/* anynet config prints the settings (config.h); anynet version prints the versions. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nccl_net/config.h>
#include <nccl_net/util.h>
#include <nccl_net/wire.h>

#include "tools/shared/args.h"
#include "tools/shared/document.h"
#include "tools/shared/net/driver.h"

#define VALUE_BYTES   ANYNET_LIST_BYTES
#define CONFIG_FAILED 2

enum format {
	FORMAT_TEXT,
	FORMAT_MARKDOWN,
	FORMAT_JSON
};

static const struct argp_option options[] = {
	{ "markdown", 'm', NULL, 0, "print the table of the documentation, without values", 0 },
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	enum format *format = state->input;

	(void)arg;
	switch (key) {
	case 'm':
		*format = FORMAT_MARKDOWN;
		return 0;
	case 'j':
		*format = FORMAT_JSON;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char *source_name(enum anynet_config_source source)
{
	switch (source) {
	case ANYNET_FROM_ENV:
		return "env";
	case ANYNET_FROM_ALIAS:
		return "alias";
	default:
		return "default";
	}
}

static void print_text(const struct anynet_config *cfg, const enum anynet_config_source *sources)
{
	char value[VALUE_BYTES];

	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];
		const char *from =
			sources[i] == ANYNET_FROM_ALIAS ? row->alias : source_name(sources[i]);

		anynet_config_format(row, cfg, value, sizeof(value));
		printf("%-26s %-12s from %s\n", row->name, *value ? value : "''", from);
		printf("        %s\n        accepts %s", row->doc, row->accepts);
		printf(row->alias ? "; alternative: %s\n" : "\n", row->alias);
	}
}

static void print_json(const struct anynet_config *cfg, const enum anynet_config_source *sources)
{
	json_t *list = json_array();
	char value[VALUE_BYTES];

	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];

		anynet_config_format(row, cfg, value, sizeof(value));
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s?, s:s, s:s}",
						      "name", row->name, "value", value, "source",
						      source_name(sources[i]), "default",
						      row->initial, "alias", row->alias, "accepts",
						      row->accepts, "doc", row->doc));
	}
	document_print("config", json_pack("{s:o}", "settings", list), stdout);
}

int cmd_config(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Prints the settings, their values here and their source.",
	};
	enum anynet_config_source *sources;
	enum format format = FORMAT_TEXT;
	struct anynet_config cfg;

	argp_err_exit_status = ARGS_WRONG;
	argp_parse(&argp, argc, argv, 0, NULL, &format);
	sources = calloc(anynet_config_row_count, sizeof(*sources));
	if (!sources)
		return CONFIG_FAILED;
	anynet_config_load(&cfg, sources);
	if (format == FORMAT_MARKDOWN)
		anynet_config_print_markdown(stdout);
	else if (format == FORMAT_JSON)
		print_json(&cfg, sources);
	else
		print_text(&cfg, sources);
	free(sources);
	return 0;
}

int cmd_version(int argc, char **argv)
{
	static const struct argp_option version_options[] = {
		{ "json", 'j', NULL, 0, "print JSON", 0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = version_options,
		.parser = parse,
		.doc = "Prints the versions of the tool and of its protocols.",
	};
	enum format format = FORMAT_TEXT;

	argp_err_exit_status = ARGS_WRONG;
	argp_parse(&argp, argc, argv, 0, NULL, &format);
	if (format != FORMAT_JSON) {
		printf("anynet " ANYNET_VERSION ", wire protocol %d, net API v%d to v%d\n",
		       ANYNET_WIRE_VERSION, DRIVER_ABI_FIRST, DRIVER_ABI_LAST);
		return 0;
	}
	document_print("version",
		       json_pack("{s:i, s:[i, i]}", "wire", ANYNET_WIRE_VERSION, "net_api",
				 DRIVER_ABI_FIRST, DRIVER_ABI_LAST),
		       stdout);
	return 0;
}
