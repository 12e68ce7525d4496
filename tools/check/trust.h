/* SPDX-License-Identifier: Apache-2.0 */
/*
 * anynet check as root: the libraries that it opens (verbs, the GPU driver, nftables) are not taken from
 * directories of LD_LIBRARY_PATH that others may write to. The variable itself is looked at all the same.
 */
#ifndef CHECK_TRUST_H
#define CHECK_TRUST_H

#include "text.h"

/*
 * First of all. If the loader of this process searches such directories, it is started again without them:
 * `arguments` are those behind "anynet check". Returns 0, or the errno of a start that failed.
 */
int trust_begin(char **arguments);

/* The directories that were left out. The caller's. */
struct text_list trust_left_out(void);

#endif
