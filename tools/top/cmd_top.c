/* SPDX-License-Identifier: Apache-2.0 */
/* anynet top: the connections of the jobs on this host, live or once. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/now.h"
#include "tools/shared/output_args.h"
#include "tools/shared/stats/print.h"
#include "tools/shared/stats/stats_dir.h"
#include "tools/shared/status.h"
#include "tools/shared/terminal.h"

#define WIDTH     120 /* columns, if the width of the terminal is unknown */
#define DELAY_MAX 3600

struct options {
	bool once, streams;
	double delay; /* seconds */
	const char *dir;
};

static const struct argp_option arguments[] = {
	{ "once", '1', NULL, 0,
	  "Print once and exit, as with --json; the exit status reports problems", 0 },
	{ "delay", 'd', "SECONDS", 0, "interval over which rates are measured; 1", 0 },
	{ "paths", 'p', NULL, 0, "Show every path, not only those of connections in trouble", 0 },
	STATS_DIR_OPTION,
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (key) {
	case '1':
		o->once = true;
		return 0;
	case 'd':
		o->delay = strtod(arg, &end);
		if (end == arg || *end || !(o->delay > 0 && o->delay <= DELAY_MAX))
			argp_error(state, "'%s': expected a number of seconds up to %d", arg,
				   DELAY_MAX);
		return 0;
	case 'p':
		o->streams = true;
		return 0;
	case 'D':
		o->dir = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void read_pages(struct page_list *list, const char *dir)
{
	int ret = page_read_all(list, dir, &(struct page_wish){ 0 });

	if (!ret)
		return;
	fprintf(stderr, "anynet top: %s: %s\n", dir, strerror(-ret));
	exit(STATUS_UNREADABLE);
}

static int show(const struct options *o, const struct page_list *before,
		const struct page_list *now)
{
	const struct terminal terminal = terminal_of(stdout);
	const struct print_style style = {
		.width = terminal_width(&terminal, WIDTH),
		.lines = o->once || !terminal.lines ? 0 : terminal.lines - 1,
		.colour = terminal.colour,
		.streams = o->streams,
	};
	struct view view;
	int status;

	view_make(&view, before, now);
	if (!o->once && terminal.cursor)
		printf("\033[H\033[J");
	if (output_is_json())
		print_view_json(&view, "top", stdout);
	else
		print_view(&view, &style, stdout);
	status = view.trouble >= TROUBLE_CUT    ? STATUS_ERROR
		 : view.trouble != TROUBLE_NONE ? STATUS_WARNING
						: STATUS_OK;
	view_free(&view);
	fflush(stdout);
	return status;
}

int cmd_top(int argc, char **argv)
{
	static const struct argp argp = {
		.options = arguments,
		.parser = parse,
		.doc = "Shows the connections of the jobs on this host, problems first: of your own "
		       "processes; for root, of all.\vExit status with --once: 0 no problem, 1 a "
		       "warning, 2 a connection has failed or is cut, or a process is stopped, 3 "
		       "nothing could be read.",
		.children = view_args,
	};
	struct options o = { .delay = 1, .dir = stats_dir() };
	struct page_list before = { 0 }, now;
	int status;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	o.once |= output_is_json();
	if (o.once) {
		read_pages(&before, o.dir);
		sleep_ms((int)(o.delay * 1000));
	}
	for (;;) {
		read_pages(&now, o.dir);
		status = show(&o, &before, &now);
		page_free_all(&before);
		before = now;
		if (o.once || ferror(stdout))
			break;
		sleep_ms((int)(o.delay * 1000));
	}
	page_free_all(&before);
	return status;
}
