/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the head of an HTTP/1 request for `anynet export`. The input is not trusted. */
#ifndef EXPORT_HTTP_REQUEST_H
#define EXPORT_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REQUEST_BYTES 4096 /* maximum size of a head */

struct http_request {
	int status;   /* of the response: 200, 400, 404, 405, 431 or 505 */
	bool is_head; /* HEAD: no body in the response */
};

/* Parses what has been received. Returns false if the head is not complete; more is needed then. */
bool http_request_parse(struct http_request *request, const char *text, size_t bytes);

/* The reason phrase, such as "Not Found". */
const char *http_status_name(int status);

#endif
