/* SPDX-License-Identifier: Apache-2.0 */
/* Options of the commands that measure between hosts: --seconds, --bytes, --streams, --dev. */
#ifndef TOOLS_MEASURE_ARGS_H
#define TOOLS_MEASURE_ARGS_H

#include <argp.h>

#include "measure.h"

enum {
	KEY_SECONDS = 0x200,
	KEY_BYTES,
	KEY_STREAMS,
	KEY_DEV
};

/* Parses one option. Returns ARGP_ERR_UNKNOWN for any other key. */
error_t measure_parse(int key, const char *arg, struct argp_state *state, struct measure *measure);

#endif
