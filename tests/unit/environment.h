/* SPDX-License-Identifier: Apache-2.0 */
/* The environment that the code under test sees, and where its log lines go. */
#ifndef TESTS_UNIT_ENVIRONMENT_H
#define TESTS_UNIT_ENVIRONMENT_H

/* Remove every ANYNET_* and NCCL_* variable. */
void environment_clear(void);

/* From now on lines go to support/capture.h, INFO and below only with NCCL_DEBUG set. Forgets
 * earlier ones. */
void log_to_capture(void);

/* The newest line of any level; "" = there is none. Good until the next call. */
const char *newest_line(void);

#endif
