/* SPDX-License-Identifier: Apache-2.0 */
/* See http_request.h. Only the first line matters: the single page is the same for all clients. */
#include "http_request.h"

#include <string.h>

#include <nccl_net/util.h>

#define TARGET "/metrics"

/* Stores the word at *text, which ends at a blank or at `end`, skips it and one blank, and returns its length. */
static size_t take_word(const char **text, const char *end, const char **word)
{
	const char *at = *text;

	*word = at;
	while (at < end && *at != ' ')
		at++;
	*text = at < end ? at + 1 : at;
	return (size_t)(at - *word);
}

static bool is_word(const char *word, size_t bytes, const char *text)
{
	return bytes == strlen(text) && !memcmp(word, text, bytes);
}

static bool is_target(const char *word, size_t bytes)
{
	const char *query = memchr(word, '?', bytes);

	return is_word(word, query ? (size_t)(query - word) : bytes, TARGET);
}

static int status_of(const char *line, const char *end, bool *is_head)
{
	const char *method, *target, *version;
	size_t method_bytes = take_word(&line, end, &method);
	size_t target_bytes = take_word(&line, end, &target);
	size_t version_bytes = take_word(&line, end, &version);

	if (line != end || !method_bytes || !target_bytes || version_bytes != strlen("HTTP/1.1") ||
	    memcmp(version, "HTTP/", strlen("HTTP/")) != 0)
		return 400;
	*is_head = is_word(method, method_bytes, "HEAD");
	if (version[5] != '1' || version[6] != '.')
		return 505;
	if (!is_target(target, target_bytes))
		return 404;
	return *is_head || is_word(method, method_bytes, "GET") ? 200 : 405;
}

bool http_request_parse(struct http_request *request, const char *text, size_t bytes)
{
	const char *line_end = memchr(text, '\n', bytes);
	bool whole =
		line_end && (memmem(text, bytes, "\r\n\r\n", 4) || memmem(text, bytes, "\n\n", 2));

	*request = (struct http_request){ .status = 431 };
	if (!whole)
		return bytes >= HTTP_REQUEST_BYTES;
	if (line_end > text && line_end[-1] == '\r')
		line_end--;
	request->status = status_of(text, line_end, &request->is_head);
	return true;
}

const char *http_status_name(int status)
{
	static const struct {
		int status;
		const char *name;
	} names[] = {
		{ 200, "OK" },
		{ 400, "Bad Request" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 431, "Request Header Fields Too Large" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].status == status)
			return names[i].name;
	return "Error";
}
