/* SPDX-License-Identifier: Apache-2.0 */
/* Opens control connections (wire.h): resolves names, and keeps segments small. */
#ifndef PAIR_CONTROL_H
#define PAIR_CONTROL_H

#define CONTROL_TEXT 400

/*
 * Returns a non-blocking socket, or a negative errno with the reason in `why` (CONTROL_TEXT bytes);
 * -ENOENT: the name has no address.
 */
int control_open(const char *host, int port, char *why);

#endif
