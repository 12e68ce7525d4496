/* SPDX-License-Identifier: Apache-2.0 */
/* The head of an HTTP/1 request, as far as `anynet export` answers one. Anybody may have written it. */
#ifndef EXPORT_HTTP_REQUEST_H
#define EXPORT_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REQUEST_BYTES 4096 /* of the longest head that is taken */

struct http_request {
	int status;   /* what it is to be answered with: 200, 400, 404, 405, 431 or 505 */
	bool is_head; /* without the body */
};

/* `text` is what has come so far. False: its end has not. */
bool http_request_parse(struct http_request *request, const char *text, size_t bytes);

/* "Not Found" */
const char *http_status_name(int status);

#endif
