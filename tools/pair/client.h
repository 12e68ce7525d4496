/* SPDX-License-Identifier: Apache-2.0 */
/* anynet pair: requests and runs all measurements, in both directions. */
#ifndef PAIR_CLIENT_H
#define PAIR_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "facts.h"
#include "measure.h"

struct client_options {
	const char *host; /* name or address of the server */
	int port;
	const char *plugin;
	struct measure measure;
	bool is_worker; /* for anynet cluster: no libraries are loaded, nothing is repeated or printed */
};

/* Returns the result, as in verdict.h, with "findings". The caller releases it. At most one call
 * per process. */
json_t *client_run(const struct client_options *options);

#endif
