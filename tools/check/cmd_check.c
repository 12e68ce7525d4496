/* SPDX-License-Identifier: Apache-2.0 */
/* anynet check: diagnoses one host. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "plugin/selector.h"

#include "check.h"
#include "report.h"
#include "tools/shared/memory.h"
#include "tools/shared/output_args.h"
#include "tools/shared/status.h"
#include "tools/shared/terminal.h"
#include "trust.h"

#define WIDTH_MOST 120 /* longer lines are hard to read */

struct options {
	bool keep_names, all_releases;
	const struct area *only; /* NULL = all */
	const char *report;
	const char *root;
};

#define AREAS "plugin, settings, nccl, launcher, system, network, ib or gpu"

static const struct area {
	const char *id, *name;
	void (*look)(struct check *);
} areas[] = {
	{ "plugin", "the plugin", check_plugin },
	{ "settings", "settings", check_settings },
	{ "nccl", "copies of NCCL", check_nccl },
	{ "launcher", "the launcher's variables", check_launcher },
	{ "system", "the system", check_system },
	{ "network", "the network", check_network },
	{ "ib", "InfiniBand and RoCE", check_ib },
	{ "gpu", "GPUs", check_gpu },
	{ 0 },
};

static const struct argp_option options[] = {
	{ "only", 'O', "AREA", 0, "check one area: " AREAS, 0 },
	{ "all-releases", 'A', NULL, 0,
	  "report what every release of NCCL would load, not only those on this host", 0 },
	{ "report", 'o', "FILE", 0,
	  "also write a report about this host to FILE, for the list of tested adapters; names and "
	  "addresses are replaced; \"-\": to standard output, and nothing else",
	  0 },
	{ "keep-names", 'k', NULL, 0, "keep names and addresses in the report", 0 },
	{ "root", 'r', "DIR", 0,
	  "read files below DIR, as those of another host; interfaces, verbs devices and GPUs are "
	  "still this host's",
	  0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;
	struct stat st;

	switch (key) {
	case 'O':
		for (opt->only = areas; opt->only->id && strcmp(opt->only->id, arg); opt->only++)
			;
		if (!opt->only->id)
			argp_error(state, "%s is not an area: %s", arg, AREAS);
		return 0;
	case 'A':
		opt->all_releases = true;
		return 0;
	case 'o':
		opt->report = arg;
		return 0;
	case 'k':
		opt->keep_names = true;
		return 0;
	case 'r':
		if (stat(arg, &st) || !S_ISDIR(st.st_mode))
			argp_error(state, "%s is not a directory", arg);
		opt->root = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const char doc[] =
	"Checks this host as a job in this environment finds it, and prints what is wrong, why it "
	"matters and how to fix it.\vNothing that is found is run or loaded, except the libraries "
	"of verbs and of the GPU driver. Exit status: 0 no findings, 1 warnings, 2 errors, or the "
	"report cannot be written, 3 invalid command line.";

/* Removes the final '/', since paths are appended. */
static char *root_of(const char *dir)
{
	size_t bytes = strlen(dir);

	while (bytes && dir[bytes - 1] == '/')
		bytes--;
	return text_copy(dir, bytes);
}

/* Receives the plugin's warnings; NULL = discard them. */
static struct text_list *warnings;

static void keep_warning(int level, unsigned long flags, const char *file, int line,
			 const char *fmt, ...) ANYNET_PRINTF(5, 6);

static void keep_warning(int level, unsigned long flags, const char *file, int line,
			 const char *fmt, ...)
{
	va_list args;

	(void)flags;
	(void)file;
	(void)line;
	if (level != ANYNET_LOG_WARN || !warnings)
		return;
	va_start(args, fmt);
	text_list_add(warnings, text_vformat(fmt, args));
	va_end(args);
}

/* Gathers the data for all areas. conf_load comes first, because it sets variables that the others read. */
static void gather(struct check *check)
{
	conf_load(&check->conf, &check->host);
	loader_open(&check->loader, &check->host);
	copies_find(&check->copies, &check->loader);
	copies_find_users(&check->copies, &check->loader);
	warnings = &check->warnings;
	anynet_log_set_sink(keep_warning);
	anynet_config_load(&check->config, NULL);
	warnings = NULL; /* the selector's warnings repeat its verdicts */
	check->probe = memory_get(sizeof(*check->probe));
	anynet_selector_run(anynet_selector_name(), &check->config, check->probe);
	interfaces_read(&check->interfaces, &check->config);
	check->firewall = firewall_read();
}

/* Shows progress, since name resolution or a driver may take seconds. NULL clears the line. */
static void tell_progress(const char *what)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s%s", what ? "checking " : "", what ? what : "");
}

/* check_plugin always runs, because other areas need its result. */
static void run(struct check *check, const struct options *opt)
{
	tell_progress("libraries and devices");
	gather(check);
	for (const struct area *area = areas; area->id; area++) {
		bool wanted = !opt->only || opt->only == area;
		size_t before = check->report.count;

		if (!wanted && area->look != check_plugin)
			continue;
		tell_progress(area->name);
		check->report.area = area->id;
		area->look(check);
		if (!wanted)
			check->report.count = before;
	}
	tell_progress(NULL);
}

/* Returns 0 or the exit status. */
static int write_report(const struct check *check, const struct options *opt)
{
	int ret = opt->report ? report_write(check, opt->report, opt->keep_names) : 0;

	if (!ret)
		return 0;
	fprintf(stderr, "anynet check: %s cannot be written: %s\n", opt->report, strerror(-ret));
	return STATUS_ERROR;
}

int cmd_check(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = doc,
		.children = output_args,
	};
	struct options opt = { .root = "" };
	const struct passwd *user = getpwuid(getuid());
	static struct check check = { .host = { .home = "" } }; /* nothing of it is freed */
	struct terminal terminal;
	int width, status = trust_begin(argv + 1);

	if (status) {
		fprintf(stderr, "anynet check: /proc/self/exe: %s\n", strerror(status));
		return STATUS_UNREADABLE;
	}
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	check.host.root = root_of(opt.root);
	if (user && user->pw_dir)
		check.host.home = text_dup(user->pw_dir);
	check.all_releases = opt.all_releases;
	run(&check, &opt);
	terminal = terminal_of(stdout);
	width = terminal_width(&terminal, 0);
	status = write_report(&check, &opt);
	if (output_is_quiet())
		findings_keep(&check.report, CHECK_WARN);
	if (opt.report && !strcmp(opt.report, "-"))
		; /* nothing else to print */
	else if (output_is_json())
		findings_print_json(&check.report, stdout);
	else
		findings_print_text(&check.report, width < WIDTH_MOST ? width : WIDTH_MOST,
				    terminal.colour, stdout);
	return status ? status : findings_exit_status(&check.report);
}
