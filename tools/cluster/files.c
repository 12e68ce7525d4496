/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the command line; see files.h. */
#include "files.h"

#include <stdio.h>
#include <stdlib.h>

#include "matrix.h"

#define FILE_MAX (512 << 20) /* bytes; a run of 256 hosts has 130 MB */

char *files_read(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;

	*bytes = 0;
	while (file && !feof(file) && !ferror(file) && room < FILE_MAX) {
		char *more = realloc(text, (room += 1 << 20) + 1);

		if (!more)
			break;
		text = more;
		*bytes += fread(text + *bytes, 1, room - *bytes, file);
	}
	if (!file || !feof(file)) {
		free(text);
		text = NULL;
	} else {
		text[*bytes] = '\0';
	}
	if (file)
		fclose(file);
	return text;
}

json_t *files_baseline(struct argp_state *state, const char *path)
{
	size_t bytes;
	char *text = files_read(path, &bytes);
	json_error_t error = { .text = "it cannot be read, or is larger than 512 MB" };
	json_t *doc = text ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error) : NULL;
	const char *why = error.text;
	struct matrix m;
	json_t *link;
	size_t i;

	free(text);
	if (!doc || matrix_read(doc, &m, &why))
		argp_error(state, "--baseline %s: %s", path, why);
	matrix_free(&m);
	/* Not compared, and most of the document. */
	json_array_foreach(json_object_get(doc, "links"), i, link)
		json_object_del(link, "measured");
	return doc;
}
