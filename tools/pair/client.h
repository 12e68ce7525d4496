/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair: everything is asked and measured from here, both ways. */
#ifndef PAIR_CLIENT_H
#define PAIR_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "host.h"
#include "measure.h"

struct client_options {
	const char *host; /* name or address */
	int port;
	const char *plugin;
	struct measure measure;
	bool repeat;   /* what looks wrong is measured again before it is judged */
	bool progress; /* on stderr, for a terminal */
	bool announce; /* bandwidth runs, on stderr, before they begin */
};

/* The result, as verdict.h describes it and with "findings". The caller releases it. Once per process. */
json_t *client_run(const struct client_options *options);

#endif
