/* SPDX-License-Identifier: Apache-2.0 */
/* The environment that the code under test sees; see environment.h. */
#include "environment.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <nccl_net/log.h>

#include "support/capture.h"

static const char *find_variable(void)
{
	for (char **entry = environ; entry && *entry; entry++) {
		if (!strncasecmp(*entry, "ANYNET_", 7) || !strncasecmp(*entry, "NCCL_", 5))
			return *entry;
	}
	return NULL;
}

void environment_clear(void)
{
	const char *entry;

	while ((entry = find_variable())) {
		char *name = strndup(entry, strcspn(entry, "="));

		if (!name || unsetenv(name))
			abort();
		free(name);
	}
}

void log_to_capture(void)
{
	capture_forget();
	capture_allow_warn();
	anynet_log_set_sink(capture_logger);
}

const char *newest_line(void)
{
	static char line[CAPTURE_LINE_BYTES];

	if (!capture_find(0, NULL, line))
		*line = 0;
	return line;
}
