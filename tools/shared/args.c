/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that several commands and benchmarks take; see args.h. */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long long parse_number(struct argp_state *state, const char *what, const char *text,
			      const char *units, long long min, long long max)
{
	const char *unit;
	long long value;
	int shift = 0;
	char *end;

	errno = 0;
	value = strtoll(text, &end, 10);
	unit = *end ? strchr(units, *end | 0x20) : NULL;
	if (unit) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	if (end == text || *end || errno || __builtin_mul_overflow(value, 1LL << shift, &value) ||
	    value < min || value > max)
		argp_error(state, "%s '%s': expected a number from %lld to %lld", what, text, min,
			   max);
	return value;
}

long long args_number(struct argp_state *state, const char *what, const char *text, long long min,
		      long long max)
{
	return parse_number(state, what, text, "", min, max);
}

long long args_size(struct argp_state *state, const char *what, const char *text, long long min,
		    long long max)
{
	return parse_number(state, what, text, "kmg", min, max);
}

void args_host(struct argp_state *state, const char *text, char host[ARGS_HOST], int port_min,
	       int *port)
{
	const char *colon = strrchr(text, ':'), *number = NULL;
	size_t bytes = strlen(text);

	if (*text == '[' && strchr(text, ']')) {
		const char *close = strchr(text, ']');

		number = close[1] == ':' ? close + 2 : NULL;
		if (close[1] && !number)
			argp_error(state, "'%s': expected HOST:PORT or [ADDRESS]:PORT", text);
		text++;
		bytes = (size_t)(close - text);
	} else if (colon && strchr(text, ':') == colon) {
		number = colon + 1;
		bytes = (size_t)(colon - text);
	}
	if (!bytes || bytes >= ARGS_HOST)
		argp_error(state, "expected a host name of at most 255 characters");
	for (size_t i = 0; i < bytes; i++)
		if (text[i] <= ' ' || text[i] > '~')
			argp_error(state,
				   "expected a host name of ASCII characters, without blanks");
	snprintf(host, ARGS_HOST, "%.*s", (int)bytes, text);
	if (number)
		*port = (int)args_number(state, "port", number, port_min, 65535);
}
