/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of the fakes: a command a line, or between semicolons; # begins a comment. */
#ifndef TESTS_FAKES_SCRIPT_H
#define TESTS_FAKES_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#define SCRIPT_BYTES 8192

/* `run` gets the rest of the line without the spaces around it, and may change it. 0 = accepted. */
struct script_command {
	const char *name;
	int (*run)(char *words);
	bool describes; /* refused where devices are fixed */
	bool *flag;     /* the variable that "on" and "off" set; there is no `run` then */
};

struct script {
	const char *fake; /* for messages */
	const struct script_command *commands;
	size_t count;
};

/* Stops at the first line that is not accepted, and prints it. 0 or -EINVAL. */
int script_obey(const struct script *script, const char *text, bool devices_fixed);

/* The contents of the environment variable, or of the file that it names by a path that starts with "/"; `otherwise` if
 * it is not set. 0 or errno. */
int script_of(const char *variable, const char *otherwise, char text[SCRIPT_BYTES]);

#endif
