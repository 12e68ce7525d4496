/* SPDX-License-Identifier: Apache-2.0 */
/* Argument parsers shared by commands and benchmarks. An invalid argument ends the process by argp_error. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>

#define ARGS_HOST 256 /* bytes of a host name or address, with the final zero */

long long args_number(struct argp_state *state, const char *what, const char *text, long long min,
		      long long max);
/* As args_number, with an optional suffix K, M or G (powers of 1024). */
long long args_size(struct argp_state *state, const char *what, const char *text, long long min,
		    long long max);

/* Parses HOST, HOST:PORT, an IPv6 address, or [ADDRESS]:PORT. Leaves *port unchanged if the text
 * has no port. Ports below port_min are rejected. */
void args_host(struct argp_state *state, const char *text, char host[ARGS_HOST], int port_min,
	       int *port);

#endif
