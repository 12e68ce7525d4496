/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small HTTP/1.1 server of one page. One thread, a poll loop; clients are unauthenticated: their number, what
 * they say and how long they take are bounded, and none waits for another.
 */
#ifndef EXPORT_HTTP_SERVER_H
#define EXPORT_HTTP_SERVER_H

#include <signal.h>
#include <stddef.h>

#define HTTP_CLIENTS  32    /* at a time; one more and the oldest goes */
#define HTTP_READ_MS  5000  /* for a request to come … */
#define HTTP_WRITE_MS 30000 /* … and for the answer to go */
#define HTTP_FRESH_MS 1000  /* clients that come within it get the same page */

struct http_server {
	int fd;           /* listening, non-blocking */
	const char *type; /* of the page */
	/* Makes the page, to be freed; NULL: it cannot be made. */
	char *(*render)(void *arg, size_t *bytes);
	void *arg;
	unsigned read_ms, write_ms, fresh_ms; /* as above, unless somebody wants them otherwise */
	const volatile sig_atomic_t *stop;    /* once it is not 0, it ends */
	const sigset_t *mask; /* of signals while it waits: those that set `stop` come then only */
};

/* Serves until it is stopped: 0, or -errno. */
int http_server_run(const struct http_server *server);

#endif
