/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page that the test's own process writes, in local_cfg.stats. */
#ifndef OWN_PAGE_H
#define OWN_PAGE_H

#include "tools/shared/stats/page.h"

/* The name of the one page in the directory; NULL = there is none. Of static memory. */
const char *own_page_file(void);

/* Has it written, and reads it; page_free() is the caller's. */
struct page own_page_look(void);

#endif
