/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of clients of `anynet export`, as they arrive: the head ends at its end, and the answer does not depend on
 * what follows. */
#include "input.h"
#include "tools/export/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct http_request request, whole;
	size_t count = 0;
	char *text;

	if (bytes > HTTP_REQUEST_BYTES)
		bytes = HTTP_REQUEST_BYTES;
	while (count < bytes) {
		count++;
		text = malloc(count); /* so that an access behind it is detected */
		must(text);
		memcpy(text, data, count);
		if (http_request_parse(&request, text, count)) {
			must(http_request_parse(&whole, (const char *)data, bytes));
			must(whole.status == request.status && whole.is_head == request.is_head);
			must(*http_status_name(request.status) != 'E');
			count = bytes;
		}
		free(text);
	}
	return 0;
}
