/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that never were: documents of anynet cluster in which all is well, to be spoilt. */
#ifndef TESTS_MADE_UP_H
#define TESTS_MADE_UP_H

#include <jansson.h>
#include <stddef.h>

/* Hosts n0 ..., all alike, all pairs measured: 100 us, 1000 MB/s each way. */
json_t *made_up_run(size_t hosts);

json_t *made_up_host(json_t *run, size_t host);
json_t *made_up_facts(json_t *run, size_t host);

/* The link of a pair; it is a's. */
json_t *made_up_link(json_t *run, size_t a, size_t b);

/* JSON with ' for ". */
json_t *made_up(const char *text);

#endif
