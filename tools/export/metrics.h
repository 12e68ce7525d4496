/* SPDX-License-Identifier: Apache-2.0 */
/* Stats pages (tools/stats/page.h) as metrics for Prometheus: its text format, version 0.0.4. */
#ifndef EXPORT_METRICS_H
#define EXPORT_METRICS_H

#include <stdio.h>

#include "tools/shared/stats/page.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What is more than that is left out, and counted: no page makes the text larger than some 40 MB. */
#define METRICS_CONNECTIONS_MAX 4096
#define METRICS_STREAMS_MAX     8192

/* No series comes twice, whatever the pages say. 0 or -ENOMEM. */
int metrics_write(const struct page_list *pages, FILE *out);

#endif
