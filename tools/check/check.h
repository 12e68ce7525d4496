/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet check: what is known about the host, and the areas that judge it. Each area is a function
 * that adds its findings to the report; what several of them need is gathered before.
 */
#ifndef CHECK_CHECK_H
#define CHECK_CHECK_H

#include "findings.h"
#include "host.h"

struct check {
	struct host host;
	struct check_report report;
};

#endif
