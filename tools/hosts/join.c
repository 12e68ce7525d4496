/* SPDX-License-Identifier: Apache-2.0 */
/* Joins and names; see join.h. */
#include "join.h"

#include <ctype.h>
#include <string.h>

#include "tools/shared/member.h"

bool host_name_is_good(const char *name)
{
	size_t bytes = strlen(name);

	return bytes && bytes < HOST_NAME && *name != '-' &&
	       strspn(name,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@") ==
		       bytes;
}

json_t *join_new(const char *name, int port)
{
	return json_pack("{s:s, s:s, s:i}", "op", "join", "name", name, "port", port);
}

int join_parse(const json_t *message, char name[HOST_NAME], int *port)
{
	const char *said = member_text(message, "name");
	size_t i;

	*port = (int)member_int(message, "port", 0, 65535, -1);
	if (strcmp(member_text(message, "op"), "join") != 0 || (*port && *port < JOIN_PORT_MIN) ||
	    !*said)
		return -1;
	/* Leave room for the suffix that makes names unique (make_names_unique). */
	for (i = 0; said[i] && i < HOST_NAME - 8; i++)
		name[i] = (char)(isascii(said[i]) && (isalnum(said[i]) || strchr("._", said[i]) ||
						      (i && said[i] == '-'))
					 ? said[i]
					 : '_');
	name[i] = '\0';
	return 0;
}
