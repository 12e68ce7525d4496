/* SPDX-License-Identifier: Apache-2.0 */
/* Writes statistics files (tools/shared/stats/page.h) as metrics in Prometheus' text format, version 0.0.4. */
#ifndef EXPORT_METRICS_H
#define EXPORT_METRICS_H

#include <stdio.h>

#include "tools/shared/stats/page.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Limits for all users together; the text has up to about 40 MB. What exceeds them is counted in anynet_left_out. */
#define METRICS_CONNECTIONS_MAX 4096
#define METRICS_STREAMS_MAX     8192

/* Writes all metrics. No series occurs twice, even if the files are inconsistent. */
void metrics_write(const struct page_list *pages, FILE *out);

#endif
