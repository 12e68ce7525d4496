/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server for one page. A poll loop in one thread. Clients are not trusted: their number, the size of
 * a request and its duration are bounded, and no client can block another.
 */
#ifndef EXPORT_HTTP_SERVER_H
#define EXPORT_HTTP_SERVER_H

#include <signal.h>
#include <stddef.h>

#define HTTP_CLIENTS  32    /* simultaneous clients; one more closes the oldest */
#define HTTP_READ_MS  5000  /* limit for receiving a request */
#define HTTP_WRITE_MS 30000 /* limit for sending a response */
#define HTTP_FRESH_MS 1000  /* requests within this time of its rendering get the same page */

struct http_server {
	int fd;           /* listening socket, non-blocking; the caller closes it */
	const char *type; /* Content-Type of the page */
	/* Renders the page. Returns malloc'ed text, or NULL on failure (status 503). */
	char *(*render)(void *arg, size_t *bytes);
	void *arg;
	unsigned read_ms, write_ms, fresh_ms; /* HTTP_READ_MS, ...; tests use other values */
	const volatile sig_atomic_t *stop;    /* the server ends when this is not 0 */
	const sigset_t *mask; /* for ppoll: signals that set `stop` are unblocked only there */
};

/* Serves until *stop is set. Returns 0, or -errno. */
int http_server_run(const struct http_server *server);

#endif
