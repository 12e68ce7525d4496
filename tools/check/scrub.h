/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes out of a report what is nobody's business: names of hosts and of the user, addresses, serial numbers of
 * ports, values of variables that are named like a secret. Each is replaced by one word wherever it occurs, so that
 * what belongs together can still be seen. One thread.
 */
#ifndef CHECK_SCRUB_H
#define CHECK_SCRUB_H

#include <jansson.h>

#include "host.h"

struct scrub {
	bool keep_names;          /* secrets are taken out all the same */
	struct text_list hosts;   /* names of hosts, longest first */
	struct text_list users;   /* … of users */
	struct text_list secrets; /* values */
	/* What was seen so far; the place is the number. A host is here without its domain. */
	struct text_list addresses, seen_hosts, seen_users;
};

/* What there is to replace, from the environment, /etc/hosts and the kernel. */
void scrub_open(struct scrub *scrub, const struct host *host, bool keep_names);
void scrub_close(struct scrub *scrub);

/* The text without it. The caller's. */
char *scrub_text(struct scrub *scrub, const char *text);

/* A copy of the value with all its texts so; names of members stay. The caller's. */
json_t *scrub_json(struct scrub *scrub, json_t *value);

/* Is it a variable of ours or NCCL's whose value is no secret? */
bool scrub_is_known(const char *name);

#endif
