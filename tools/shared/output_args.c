/* SPDX-License-Identifier: Apache-2.0 */
/* --color and --quiet; see output_args.h. */
#include "output_args.h"

#include <string.h>

#include "terminal.h"

enum {
	KEY_COLOR = 0x300
};

static bool quiet;

static const struct argp_option color_options[] = {
	{ "color", KEY_COLOR, "always|auto|never", 0, "colours (auto: for a terminal)", 10 },
	{ 0 },
};
static const struct argp_option quiet_options[] = {
	{ "quiet", 'q', NULL, 0, "print warnings and errors only", 10 },
	{ 0 },
};

static error_t parse_color(int key, char *arg, struct argp_state *state)
{
	static const char *const words[] = {
		[COLOUR_AUTO] = "auto",
		[COLOUR_ALWAYS] = "always",
		[COLOUR_NEVER] = "never",
	};

	if (key != KEY_COLOR)
		return ARGP_ERR_UNKNOWN;
	for (int i = 0; i < 3; i++) {
		if (strcmp(arg, words[i]) != 0)
			continue;
		terminal_set_colour((enum colour)i);
		return 0;
	}
	argp_error(state, "--color '%s': expected always, auto or never", arg);
	return 0;
}

static error_t parse_quiet(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	(void)state;
	if (key != 'q')
		return ARGP_ERR_UNKNOWN;
	quiet = true;
	return 0;
}

static const struct argp color_argp = { color_options, parse_color, NULL, NULL, NULL, NULL, NULL };

const struct argp_child color_args[] = {
	{ &color_argp, 0, NULL, 0 },
	{ 0 },
};
const struct argp output_argp = { quiet_options, parse_quiet, NULL, NULL, color_args, NULL, NULL };
const struct argp_child output_args[] = {
	{ &output_argp, 0, NULL, 0 },
	{ 0 },
};

bool output_is_quiet(void)
{
	return quiet;
}
