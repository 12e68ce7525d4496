/* SPDX-License-Identifier: Apache-2.0 */
/* anynet export: exports the connections of the jobs on this host as Prometheus metrics. */
#include "tools/shared/commands.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http_server.h"
#include "metrics.h"
#include "tools/shared/address.h"
#include "tools/shared/args.h"
#include "tools/shared/stats/stats_dir.h"
#include "tools/shared/status.h"

#define BACKLOG   64
#define EVERY_MAX 3600

struct options {
	const char *dir, *listen, *textfile;
	int every; /* seconds; 0 = once */
	struct sockaddr_storage addr;
};

static const struct argp_option arguments[] = {
	{ "listen", 'l', "ADDR:PORT", 0,
	  "Answer GET /metrics at this numeric address; [ADDR]:PORT for IPv6; port 0: any port, "
	  "which is printed",
	  0 },
	{ "textfile", 't', "FILE", 0,
	  "Write to this file, for node_exporter's textfile collector; the file is replaced as a "
	  "whole",
	  0 },
	{ "every", 'e', "SECONDS", 0, "repeat at this interval, with --textfile", 0 },
	STATS_DIR_OPTION,
	{ 0 },
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void parse_listen(struct argp_state *state, struct options *o, const char *text)
{
	char host[ARGS_HOST];
	int port = -1;

	args_host(state, text, host, 0, &port);
	if (port < 0 || !address_parse(host, port, &o->addr))
		argp_error(state, "'%s': expected an address such as 127.0.0.1:9417 or [::1]:9417",
			   text);
	o->listen = text;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'l':
		parse_listen(state, o, arg);
		return 0;
	case 't':
		o->textfile = arg;
		return 0;
	case 'e':
		o->every = (int)args_number(state, "--every", arg, 1, EVERY_MAX);
		return 0;
	case 'D':
		o->dir = arg;
		return 0;
	case ARGP_KEY_END:
		if ((o->listen && o->textfile) || (o->every && !o->textfile))
			argp_error(state, "give --listen, or --textfile with --every, or neither");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* --- the text --- */

/* Returns 0, or -errno if the directory cannot be read or the text cannot be written. */
static int write_metrics(const char *dir, FILE *out)
{
	struct page_list pages;
	int ret = page_read_all(&pages, dir, &(struct page_wish){ 0 });

	if (ret)
		return ret;
	metrics_write(&pages, out);
	page_free_all(&pages);
	return !fflush(out) ? 0 : errno ? -errno : -EIO;
}

/* Returns the text, or NULL after a message. */
static char *text_of(const char *dir, size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	int ret = out ? write_metrics(dir, out) : -ENOMEM;

	if (out && fclose(out) && !ret)
		ret = -ENOMEM;
	if (!ret)
		return text;
	fprintf(stderr, "anynet export: %s: %s\n", dir, strerror(-ret));
	free(text);
	return NULL;
}

/* --- to a file --- */

/* Creates a temporary file beside `file` and stores its name. The umask applies, unlike with mkostemp alone (0600). */
static FILE *open_beside(const char *file, char *name, size_t bytes)
{
	mode_t mask = umask(0);
	FILE *out;
	int fd;

	umask(mask);
	if ((size_t)snprintf(name, bytes, "%s.XXXXXX", file) >= bytes) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	fchmod(fd, 0666 & ~mask);
	out = fdopen(fd, "w");
	if (!out)
		close(fd);
	return out;
}

static bool write_textfile(const struct options *o)
{
	char name[4096];
	size_t bytes;
	char *text = text_of(o->dir, &bytes);
	FILE *out = text ? open_beside(o->textfile, name, sizeof(name)) : NULL;
	bool good = out && fwrite(text, 1, bytes, out) == bytes;

	if (out)
		good = !fclose(out) && good && !rename(name, o->textfile);
	if (text && !good)
		fprintf(stderr, "anynet export: %s: %s\n", o->textfile, strerror(errno));
	if (out && !good)
		unlink(name);
	free(text);
	return good;
}

static int run_textfile(const struct options *o, const sigset_t *mask)
{
	const struct timespec pause = { .tv_sec = o->every };
	bool good;

	do {
		good = write_textfile(o);
	} while (o->every && !stopped && (!ppoll(NULL, 0, &pause, mask) || !stopped));
	return good ? STATUS_OK : STATUS_ERROR;
}

/* --- to clients --- */

static char *render(void *arg, size_t *bytes)
{
	return text_of(((const struct options *)arg)->dir, bytes);
}

static int open_listener(struct options *o)
{
	int fd = address_listen(&o->addr, BACKLOG);
	bool six = o->addr.ss_family == AF_INET6;
	char text[ADDRESS_TEXT];

	if (fd < 0)
		return fd;
	printf("http://%s%s%s:%d/metrics\n", six ? "[" : "", address_print(&o->addr, text),
	       six ? "]" : "", address_port(&o->addr));
	fflush(stdout);
	return fd;
}

static int run_server(struct options *o, const sigset_t *mask)
{
	struct http_server server = {
		.fd = open_listener(o),
		.type = METRICS_TYPE,
		.render = render,
		.arg = o,
		.read_ms = HTTP_READ_MS,
		.write_ms = HTTP_WRITE_MS,
		.fresh_ms = HTTP_FRESH_MS,
		.stop = &stopped,
		.mask = mask,
	};
	int ret = server.fd < 0 ? server.fd : http_server_run(&server);

	if (server.fd >= 0)
		close(server.fd);
	if (ret)
		fprintf(stderr, "anynet export: %s: %s\n", o->listen, strerror(-ret));
	return ret ? STATUS_ERROR : STATUS_OK;
}

/* Blocks SIGINT and SIGTERM, except during ppoll with the mask *open, so that `stopped` cannot change unnoticed. */
static void catch_signals(sigset_t *open)
{
	struct sigaction action = { .sa_handler = stop };
	sigset_t closed;

	sigemptyset(&closed);
	sigaddset(&closed, SIGINT);
	sigaddset(&closed, SIGTERM);
	sigprocmask(SIG_BLOCK, &closed, open);
	sigdelset(open, SIGINT);
	sigdelset(open, SIGTERM);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

int cmd_export(int argc, char **argv)
{
	static const struct argp argp = {
		.options = arguments,
		.parser = parse,
		.doc = "Exports the connections of the jobs on this host in Prometheus' text format: of "
		       "your own processes; for root, of all. Serves them at an address, writes them to "
		       "a file, or, without either, prints them once.\vExit status: 0 ok or ended by a "
		       "signal, 2 something could not be read, written or listened on, 3 invalid "
		       "command line.",
	};
	struct options o = { .dir = stats_dir() };
	sigset_t mask;
	int ret;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	if (o.textfile || o.listen)
		catch_signals(&mask);
	if (o.listen)
		return run_server(&o, &mask);
	if (o.textfile)
		return run_textfile(&o, &mask);
	ret = write_metrics(o.dir, stdout);
	if (ret)
		fprintf(stderr, "anynet export: %s: %s\n", o.dir, strerror(-ret));
	return ret ? STATUS_ERROR : STATUS_OK;
}
