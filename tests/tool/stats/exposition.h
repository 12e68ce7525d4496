/* SPDX-License-Identifier: Apache-2.0 */
/* Is a text what Prometheus takes (text format, version 0.0.4)? Stricter: as promtool check metrics. */
#ifndef TESTS_STATS_EXPOSITION_H
#define TESTS_STATS_EXPOSITION_H

/* NULL if it is; else why not, with the line, in static memory. */
const char *exposition_check(const char *text);

#endif
