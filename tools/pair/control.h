/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a control connection (wire.h): names are looked up, segments kept small. */
#ifndef PAIR_CONTROL_H
#define PAIR_CONTROL_H

#define CONTROL_TEXT 400

/*
 * A non-blocking socket, or a negative errno with the reason in `why` (CONTROL_TEXT bytes); -ENOENT: the
 * name has no address.
 */
int control_open(const char *host, int port, char *why);

#endif
