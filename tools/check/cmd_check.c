/* SPDX-License-Identifier: Apache-2.0 */
/* anynet check: the doctor for one host. */
#include "tools/anynet.h"

#include <argp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

#define USAGE_STATUS 2 /* as an error: a script that asks nothing must not go on */

struct options {
	bool json;
	const char *root;
};

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "as JSON", 0 },
	{ "root", 'r', "DIR", 0,
	  "read files below DIR, as another host's; interfaces, verbs devices and GPUs are still "
	  "this host's",
	  0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case 'j':
		opt->json = true;
		return 0;
	case 'r':
		opt->root = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char doc[] =
	"Looks at this host as a job in this environment would find it, and says what is wrong, why "
	"it matters and what to do."
	"\vNothing that is found is run or loaded but the libraries of verbs and of the GPU driver. "
	"Exit status: 0 nothing is wrong, 1 warnings, 2 errors.";

/* Without "/" at its end: paths are put behind it. */
static char *root_of(const char *dir)
{
	size_t bytes = strlen(dir);

	while (bytes && dir[bytes - 1] == '/')
		bytes--;
	return text_copy(dir, bytes);
}

static int exit_status(const struct check_report *report)
{
	enum check_verdict worst = findings_worst(report);

	return worst == CHECK_ERROR ? 2 : worst == CHECK_WARN ? 1 : 0;
}

int cmd_check(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, doc, NULL, NULL, NULL };
	struct options opt = { .root = "" };
	const struct passwd *user = getpwuid(getuid());
	struct check check = { .host = { .home = "" } };
	struct print_style style;
	char *root, *home;
	int status;

	argp_err_exit_status = USAGE_STATUS;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	root = root_of(opt.root);
	home = user && user->pw_dir ? text_copy(user->pw_dir, strlen(user->pw_dir)) : NULL;
	check.host.root = root;
	if (home)
		check.host.home = home;
	style = print_style_of(stdout);
	if (opt.json)
		findings_print_json(&check.report, stdout);
	else
		findings_print_text(&check.report, &style, stdout);
	status = exit_status(&check.report);
	findings_free(&check.report);
	free(home);
	free(root);
	return status;
}
