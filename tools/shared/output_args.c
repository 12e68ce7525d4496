/* SPDX-License-Identifier: Apache-2.0 */
/* --json, --color and --quiet; see output_args.h. */
#include "output_args.h"

#include <string.h>

#include "terminal.h"

enum {
	KEY_COLOR = 0x300
};

static bool json, quiet;

static const struct argp_option json_options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 10 },
	{ 0 },
};
static const struct argp_option color_options[] = {
	{ "color", KEY_COLOR, "always|auto|never", 0, "colours (auto: for a terminal)", 10 },
	{ 0 },
};
static const struct argp_option quiet_options[] = {
	{ "quiet", 'q', NULL, 0, "print warnings and errors only", 10 },
	{ 0 },
};

static void parse_color(const char *arg, struct argp_state *state)
{
	static const char *const words[] = {
		[COLOUR_AUTO] = "auto",
		[COLOUR_ALWAYS] = "always",
		[COLOUR_NEVER] = "never",
	};

	for (int i = 0; i < 3; i++) {
		if (!strcmp(arg, words[i])) {
			terminal_set_colour((enum colour)i);
			return;
		}
	}
	argp_error(state, "--color '%s': expected always, auto or never", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'j':
		json = true;
		return 0;
	case 'q':
		quiet = true;
		return 0;
	case KEY_COLOR:
		parse_color(arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp json_argp = { json_options, parse, NULL, NULL, NULL, NULL, NULL };
static const struct argp color_argp = { color_options, parse, NULL, NULL, NULL, NULL, NULL };

const struct argp_child json_args[] = {
	{ &json_argp, 0, NULL, 0 },
	{ 0 },
};
const struct argp_child view_args[] = {
	{ &json_argp, 0, NULL, 0 },
	{ &color_argp, 0, NULL, 0 },
	{ 0 },
};
const struct argp output_argp = { quiet_options, parse, NULL, NULL, view_args, NULL, NULL };
const struct argp_child output_args[] = {
	{ &output_argp, 0, NULL, 0 },
	{ 0 },
};

bool output_is_json(void)
{
	return json;
}

bool output_is_quiet(void)
{
	return quiet;
}
