/* SPDX-License-Identifier: Apache-2.0 */
/* Options of anynet pair and anynet cluster; see measure_args.h. */
#include "measure_args.h"

#include <errno.h>
#include <stdlib.h>

#include "tools/shared/args.h"
#include "dial.h"
#include "traffic.h"

static int parse_seconds(struct argp_state *state, const char *text)
{
	char *end;
	double value;

	errno = 0;
	value = strtod(text, &end);
	if (end == text || *end || errno || !(value >= 0 && value <= DIAL_MS_MAX / 1000.0))
		argp_error(state, "--seconds '%s': expected a number from 0 to %d", text,
			   DIAL_MS_MAX / 1000);
	return (int)(value * 1000);
}

error_t measure_parse(int key, const char *arg, struct argp_state *state, struct measure *measure)
{
	switch (key) {
	case KEY_SECONDS:
		measure->ms = parse_seconds(state, arg);
		return 0;
	case KEY_BYTES:
		measure->bytes = args_number(state, "--bytes", arg, 1, 65536) * 1000000;
		return 0;
	case KEY_STREAMS:
		measure->streams =
			(int)args_number(state, "--streams", arg, 1, TRAFFIC_CHANNELS_MAX);
		return 0;
	case KEY_DEV:
		measure->dev = (int)args_number(state, "--dev", arg, 0, 255);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}
