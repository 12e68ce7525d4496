/* SPDX-License-Identifier: Apache-2.0 */
/* anynet explain: explains the logs of NCCL, PyTorch and others. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "print.h"
#include "scan.h"
#include "tools/shared/memory.h"
#include "tools/shared/now.h"
#include "tools/shared/output_args.h"
#include "tools/shared/status.h"
#include "tools/shared/terminal.h"

#define WIDTH       100       /* columns, if the width of the terminal is unknown */
#define RULES_BYTES (1 << 20) /* maximum size of a rule file */
#define TELL_MS     250       /* milliseconds between progress lines; the first comes after 1 s */

struct options {
	bool list;
	const char **rules;
	int rule_files;
	char **logs;
	int log_count;
};

static const struct argp_option arguments[] = {
	{ "rules", 'r', "FILE", 0,
	  "Additional rules, which precede the built-in ones; may be repeated", 0 },
	{ "list", 'l', NULL, 0, "Print all rules; read no log", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'l':
		o->list = true;
		return 0;
	case 'r':
		o->rules = memory_resize(o->rules, (size_t)(o->rule_files + 1) * sizeof(*o->rules));
		o->rules[o->rule_files++] = arg;
		return 0;
	case ARGP_KEY_ARGS:
		o->logs = state->argv + state->next;
		o->log_count = state->argc - state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!o->list && isatty(STDIN_FILENO))
			argp_error(state, "name a log, or pipe one to the standard input");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "anynet explain: %s%s%s\n", what, why ? ": " : "", why ? why : "");
	exit(STATUS_UNREADABLE);
}

/* --- rules --- */

static void add_file(struct rules *rules, const char *file)
{
	char *text = memory_get(RULES_BYTES + 1);
	const char *why;
	FILE *in = fopen(file, "re");
	size_t bytes;

	if (!in)
		fail(file, strerror(errno));
	bytes = fread(text, 1, RULES_BYTES + 1, in);
	if (ferror(in))
		fail(file, strerror(errno));
	if (bytes > RULES_BYTES)
		fail(file, "more than 1 MiB of rules");
	why = rules_add(rules, text, bytes, file);
	if (why)
		fail(why, NULL);
	fclose(in);
}

/* Loads the user's rules, then the built-in ones. Only the user's are checked; embed_rules has checked the others. */
static struct rules *load_rules(const struct options *o)
{
	struct rules *rules = rules_new();
	const char *why;
	size_t own;

	for (int i = 0; i < o->rule_files; i++)
		add_file(rules, o->rules[i]);
	own = rules->count;
	why = rules_add(rules, (const char *)explain_rules_text, explain_rules_bytes, "built in");
	if (!why)
		why = rules_finish(rules);
	if (!why)
		why = rules_check(rules, own);
	if (why)
		fail(why, NULL);
	return rules;
}

/* --- progress --- */

struct progress {
	const char *name;
	unsigned long long size;    /* of the current file, bytes; 0 = not known */
	unsigned long long before;  /* bytes of the previous files */
	uint64_t begin_ms, next_ms; /* start; time of the next progress line */
	bool wanted, told;          /* stderr is a terminal; a progress line has been printed */
};

static void tell(void *context, unsigned long long bytes)
{
	struct progress *p = context;
	uint64_t now;
	double rate;

	if (!p->wanted)
		return;
	now = now_ms();
	if (now < p->next_ms)
		return;
	p->next_ms = now + TELL_MS;
	rate = (double)(p->before + bytes) / 1000 / (double)(now - p->begin_ms);
	fprintf(stderr, "\r\033[K%.1f MB", (double)(p->before + bytes) / 1e6);
	if (p->size)
		fprintf(stderr, ", %.0f %% of the file", 100.0 * (double)bytes / (double)p->size);
	fprintf(stderr, ", %.0f MB/s", rate);
	fflush(stderr);
	p->told = true;
}

static void end_progress(struct progress *p)
{
	if (p->told)
		fprintf(stderr, "\r\033[K");
	p->told = false;
}

/* --- logs --- */

/* Returns NULL, or why the log, or the rest of it, cannot be read. */
static const char *read_log(struct scan *scan, const char *name, struct progress *p)
{
	bool is_stdin = !strcmp(name, "-");
	int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
	const char *why;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return strerror(errno);
	p->size = S_ISREG(st.st_mode) ? (unsigned long long)st.st_size : 0;
	why = S_ISDIR(st.st_mode) ? strerror(EISDIR)
				  : scan_fd(scan, fd, is_stdin ? "(stdin)" : name, tell, p);
	if (!is_stdin)
		close(fd);
	return why;
}

static void read_logs(const struct options *o, struct scan *scan, struct report *report)
{
	struct progress progress = { .wanted = isatty(STDERR_FILENO), .begin_ms = now_ms() };

	progress.next_ms = progress.begin_ms + 1000;
	for (int i = 0; i < (o->log_count ? o->log_count : 1); i++) {
		const char *name = o->log_count ? o->logs[i] : "-";
		const char *why = read_log(scan, name, &progress);

		if (why || i + 1 >= o->log_count)
			end_progress(&progress);
		if (why) {
			fprintf(stderr, "anynet explain: %s: %s\n", name, why);
			report_unread(report, name, why);
		}
		progress.before = report->bytes;
	}
}

static int explain(const struct options *o)
{
	struct rules *rules = load_rules(o);
	const struct terminal terminal = terminal_of(stdout);
	struct report *report;

	if (o->list) {
		print_rules(rules, stdout, terminal_width(&terminal, WIDTH));
		return 0;
	}
	report = report_new(rules);
	read_logs(o, scan_new(rules, report, SCAN_BLOCK), report);
	report_conclude(report);
	if (output_is_json())
		print_json(report, stdout);
	else if (report->file_count)
		print_text(report, stdout, terminal_width(&terminal, WIDTH), terminal.colour);
	return report_status(report);
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp argp = {
		.options = arguments,
		.parser = parse,
		.args_doc = "[LOG...]",
		.doc = "Reads logs of NCCL, PyTorch, CuPy, Lightning, JAX, Ray, DeepSpeed, MPI, "
		       "torchrun, Slurm, Kubernetes and the kernel, of one or more ranks, and reports "
		       "which line is the cause, what it means and how to fix it. Without LOG, or for "
		       "'-', reads the standard input.\vExit status: 0 nothing found, or only harmless "
		       "lines, 1 warnings only, 2 errors, 3 rules could not be read, or a log, and the "
		       "others have no errors.",
		.children = output_args,
	};
	struct options options = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &options);
	return explain(&options);
}
