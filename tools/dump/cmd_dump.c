/* SPDX-License-Identifier: Apache-2.0 */
/* anynet dump: prints the statistics of a process and the last events of its connections. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <string.h>

#include "tools/shared/args.h"
#include "tools/shared/output_args.h"
#include "tools/shared/stats/print.h"
#include "tools/shared/stats/stats_dir.h"
#include "tools/shared/status.h"

struct options {
	const char *dir;
	uint32_t pid;
};

static const struct argp_option arguments[] = {
	STATS_DIR_OPTION,
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'D':
		o->dir = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->pid)
			argp_error(state, "give one process");
		o->pid = (uint32_t)args_number(state, "process", arg, 1, INT32_MAX);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "expected the number of a process; `anynet top` lists them");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void show(const struct page_list *pages)
{
	const struct terminal terminal = terminal_of(stdout);
	struct view view;

	view_make(&view, &(struct page_list){ 0 }, pages);
	if (output_is_json())
		print_view_json(&view, "dump", stdout);
	else
		print_dump(&view, &terminal, stdout);
	view_free(&view);
}

int cmd_dump(int argc, char **argv)
{
	static const struct argp argp = {
		.options = arguments,
		.parser = parse,
		.args_doc = "PID",
		.doc = "Prints the statistics of a process and the last events of each connection. Also "
		       "of a process that was killed or has crashed, until the next process with "
		       "connections starts and removes the file.\vExit status: 0 printed, 2 no such "
		       "process, 3 nothing could be read.",
		.children = view_args,
	};
	struct options o = { .dir = stats_dir() };
	struct page_list pages;
	int ret;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	ret = page_read_all(&pages, o.dir,
			    &(struct page_wish){ .pid = o.pid, .events = true, .ended = true });
	if (ret) {
		fprintf(stderr, "anynet dump: %s: %s\n", o.dir, strerror(-ret));
		return STATUS_UNREADABLE;
	}
	if (!pages.count) {
		fprintf(stderr,
			"anynet dump: process %u has no open connections, belongs to another "
			"user, or writes no statistics (ANYNET_STATS); %s has no file of it\n",
			o.pid, o.dir);
		return STATUS_ERROR;
	}
	show(&pages);
	page_free_all(&pages);
	return STATUS_OK;
}
