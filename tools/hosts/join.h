/* SPDX-License-Identifier: Apache-2.0 */
/* How a worker introduces itself to the coordinator: {"op": "join", "name", "port"}. And the names of hosts. */
#ifndef HOSTS_JOIN_H
#define HOSTS_JOIN_H

#include <jansson.h>
#include <stdbool.h>

#define HOST_NAME     64   /* bytes of a name, including the NUL */
#define JOIN_MAX      1024 /* bytes of a join */
#define JOIN_PORT_MIN 1024 /* workers do not use privileged ports */

/* Whether a name is safe to print and to pass to ssh: letters, digits and ".-_:@", not '-' first. */
bool host_name_is_good(const char *name);

/* `port`: where the worker waits for other workers; 0 = nowhere. */
json_t *join_new(const char *name, int port);
/* Returns 0, or -1 if the message is not a valid join. Replaces invalid characters of the name, and truncates it. */
int join_parse(const json_t *message, char name[HOST_NAME], int *port);

#endif
