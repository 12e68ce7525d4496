/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of the code under test, and the destination of its log lines. */
#ifndef TESTS_UNIT_ENVIRONMENT_H
#define TESTS_UNIT_ENVIRONMENT_H

/* Removes every ANYNET_* and NCCL_* variable. */
void environment_clear(void);

/* From now on lines go to support/capture.h, INFO and below only with NCCL_DEBUG set. Discards earlier ones. */
void log_to_capture(void);

/* The newest line of any level; "" = none. Valid until the next call. */
const char *newest_line(void);

#endif
