/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of `anynet explain` for tests. */
#ifndef TESTS_EXPLAIN_READING_H
#define TESTS_EXPLAIN_READING_H

#include "tools/explain/report.h"
#include "tools/explain/rules.h"
#include "tools/explain/scan.h"

/* The built-in rules, loaded once. */
struct rules *reading_rules(void);

/* Parses one text; the caller frees the report. `block` as for scan_new. */
struct report *reading_report(const char *text, size_t bytes, size_t block);
struct report *reading_report_of_two(const char *first, const char *second);

/* The finding of a rule; NULL if it did not match. */
const struct finding *reading_find(const struct report *report, const char *id);

#endif
