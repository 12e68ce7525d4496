/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether a text is valid for Prometheus (text format, version 0.0.4). As strict as promtool check metrics. */
#ifndef TESTS_STATS_EXPOSITION_H
#define TESTS_STATS_EXPOSITION_H

/* NULL if it is valid; otherwise the reason and the line, in static memory. */
const char *exposition_check(const char *text);

#endif
