/* SPDX-License-Identifier: Apache-2.0 */
/* Artificial runs: healthy documents of anynet cluster, to which tests add faults. */
#ifndef TESTS_MADE_UP_H
#define TESTS_MADE_UP_H

#include <jansson.h>
#include <stddef.h>

/* Hosts n0 ..., all equal, all pairs measured: 100 us, 1000 MB/s each way. */
json_t *made_up_run(size_t hosts);

json_t *made_up_host(json_t *run, size_t host);
json_t *made_up_facts(json_t *run, size_t host);

/* The link of a pair; owned by the run. */
json_t *made_up_link(json_t *run, size_t a, size_t b);

/* JSON with ' for ". */
json_t *made_up(const char *text);

#endif
