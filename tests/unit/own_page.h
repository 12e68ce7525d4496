/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics file that the test's own process writes, in local_cfg.stats. */
#ifndef OWN_PAGE_H
#define OWN_PAGE_H

#include "tools/shared/stats/page.h"

/* The name of the only file in the directory; NULL = none. In static memory. */
const char *own_page_file(void);

/* Waits until it is written, and reads it; the caller calls page_free(). */
struct page own_page_look(void);

#endif
