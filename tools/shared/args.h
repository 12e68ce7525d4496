/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that several commands and benchmarks take. What is none ends the process by argp_error. */
#ifndef TOOLS_ARGS_H
#define TOOLS_ARGS_H

#include <argp.h>

#define ARGS_WRONG 3   /* exit status */
#define ARGS_HOST  256 /* bytes of a host's name or address */

long long args_number(struct argp_state *state, const char *what, const char *text, long long min,
		      long long max);
/* The same of a size, which may end in K, M or G. */
long long args_size(struct argp_state *state, const char *what, const char *text, long long min,
		    long long max);

/* HOST, HOST:PORT, an IPv6 address, or one in brackets and a port. *port, which is port_min at least, is
 * kept if there is none. */
void args_host(struct argp_state *state, const char *text, char host[ARGS_HOST], int port_min,
	       int *port);

#endif
