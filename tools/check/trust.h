/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet check as root: the libraries it opens (verbs, GPU driver, nftables) are not loaded from
 * directories in LD_LIBRARY_PATH that other users can write to or make, or whose names the dynamic
 * loader expands ($LIB). The checks still examine the original value.
 */
#ifndef CHECK_TRUST_H
#define CHECK_TRUST_H

#include "tools/shared/text.h"

/*
 * Call it first. If the dynamic loader of this process searches such directories, the function restarts the
 * program without them; `arguments` follow "anynet check". Returns 0, or the errno of a failed restart.
 */
int trust_begin(char **arguments);

/* Returns the directories that were removed. */
struct text_list trust_left_out(void);

#endif
