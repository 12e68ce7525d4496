/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOLS_TERMINAL_H
#define TOOLS_TERMINAL_H

#include <stdbool.h>

/* Is the standard output a terminal that shows colours, to somebody who wants them? */
bool terminal_has_colour(void);

#endif
