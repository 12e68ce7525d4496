/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes private data from a report: names of hosts and users, addresses, serial numbers, and
 * values of variables that may be secrets. Each value is replaced by the same word wherever it
 * occurs, so that equal values remain recognisable. Single-threaded.
 */
#ifndef CHECK_SCRUB_H
#define CHECK_SCRUB_H

#include <jansson.h>

#include "host.h"

struct scrub {
	bool keep_names;          /* remove secrets only */
	struct text_list hosts;   /* host names, longest first */
	struct text_list users;   /* user names */
	struct text_list secrets; /* values of variables */
	/* Values seen so far; the index gives the number. Hosts are listed without domain. */
	struct text_list addresses, seen_hosts, seen_users;
};

/* Collects what to replace, from the environment, /etc/hosts and the kernel. */
void scrub_open(struct scrub *scrub, const struct host *host, bool keep_names);

/* Returns the text without private data. */
char *scrub_text(struct scrub *scrub, const char *text);

/* Returns a copy of the value without private data; names of members stay. The caller releases it. */
json_t *scrub_json(struct scrub *scrub, json_t *value);

/* True for a variable of anynet or NCCL whose value is not a secret. */
bool scrub_is_known(const char *name);

#endif
