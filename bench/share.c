/* SPDX-License-Identifier: Apache-2.0 */
/* Nets on the command line, medians, the CSV; see share.h. */
#include "share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shared/doubles.h"

const char *net_spec(const char *text)
{
	const char *space = strrchr(text, ' ');

	return space ? space + 1 : text;
}

void net_set_environment(const char *text)
{
	const char *spec = net_spec(text);

	while (text < spec) {
		size_t bytes = strcspn(text, " ");
		char *setting = strndup(text, bytes), *equals;

		equals = setting ? strchr(setting, '=') : NULL;
		if (equals) {
			*equals = '\0';
			setenv(setting, equals + 1, 1);
		}
		free(setting);
		text += bytes + strspn(text + bytes, " ");
	}
}

FILE *csv_open(struct argp_state *state, const char *path)
{
	FILE *csv = fopen(path, "ae");

	if (!csv)
		argp_failure(state, 1, errno, "%s", path);
	else if (ftell(csv) == 0)
		fprintf(csv, "figure,net,spec,bytes,comms,ways,round,metric,value\n");
	return csv;
}

double median_of(double *values, int count)
{
	doubles_sort(values, (size_t)count);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}
