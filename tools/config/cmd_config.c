/* SPDX-License-Identifier: Apache-2.0 */
/* anynet config prints the settings (config.h); anynet version prints the versions. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <nccl_net/config.h>
#include <nccl_net/wire.h>

#include "tools/shared/document.h"
#include "tools/shared/memory.h"
#include "tools/shared/net/driver.h"
#include "tools/shared/output_args.h"
#include "tools/shared/text.h"

#define VALUE_BYTES ANYNET_LIST_BYTES

static const struct argp_option options[] = {
	{ "markdown", 'm', NULL, 0, "print the table of the documentation, without values", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	bool *markdown = state->input;

	(void)arg;
	if (key != 'm')
		return ARGP_ERR_UNKNOWN;
	*markdown = true;
	return 0;
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
		printf("%-26s %-12s from %s\n", row->name, *value ? text_printable(value) : "''",
		       from);
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
		json_array_append_new(list,
				      json_pack("{s:s, s:o, s:s, s:s, s:s?, s:s, s:s}", "name",
						row->name, "value", document_text(value), "source",
						source_name(sources[i]), "default", row->initial,
						"alias", row->alias, "accepts", row->accepts, "doc",
						row->doc));
	}
	document_print("config", json_pack("{s:o}", "settings", list), stdout);
}

int cmd_config(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Prints the settings, their values here and their source.",
		.children = json_args,
	};
	enum anynet_config_source *sources;
	struct anynet_config cfg;
	bool markdown = false;

	argp_parse(&argp, argc, argv, 0, NULL, &markdown);
	sources = memory_get(anynet_config_row_count * sizeof(*sources));
	anynet_config_load(&cfg, sources);
	if (markdown)
		anynet_config_print_markdown(stdout);
	else if (output_is_json())
		print_json(&cfg, sources);
	else
		print_text(&cfg, sources);
	return 0;
}

int cmd_version(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Prints the versions of the tool and of its protocols.",
		.children = json_args,
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (!output_is_json()) {
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
