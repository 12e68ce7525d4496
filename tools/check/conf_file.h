/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's configuration files: NCCL_CONF_FILE or ~/.nccl.conf, and /etc/nccl.conf. Like NCCL, this
 * code copies their entries into the environment unless the variable is already set, for code that
 * reads the environment. It also records where each value came from.
 */
#ifndef CHECK_CONF_FILE_H
#define CHECK_CONF_FILE_H

#include <stddef.h>

#include "host.h"

/* Maximum bytes of a name or value in NCCL, with the final zero. */
#define CONF_TEXT_BYTES 1024

enum conf_flaw {
	CONF_GOOD,
	CONF_NO_EQUALS,  /* NCCL skips the line */
	CONF_BLANK_NAME, /* the name contains a blank, which NCCL treats as part of it */
	CONF_CARRIAGE,   /* the value ends in a carriage return */
	CONF_QUOTED,     /* the value begins with a quote, which NCCL treats as part of it */
	CONF_CUT,        /* the name or value exceeds NCCL's limit */
	CONF_FOREIGN, /* not a variable of NCCL or anynet; not copied into the environment here */
};

/* A line that is neither empty nor a comment. */
struct conf_line {
	char name[CONF_TEXT_BYTES];
	char value[CONF_TEXT_BYTES];
	unsigned number;
	enum conf_flaw flaw;
	const char *file;
	bool taken; /* copied into the environment */
};

struct conf {
	const char *files[2]; /* names that NCCL tries; NULL = none */
	bool readable[2];     /* files[i] could be read */
	struct conf_line *lines;
	size_t count;
};

/* Appends the lines of a file as NCCL parses it. `text` ends with a zero byte and is not trusted. */
void conf_parse(struct conf *conf, const char *text, const char *file);

/* Reads the files and sets missing variables in this process's environment. Libraries to load
 * (NCCL_IBVERBS_LIB) are set only from this host's own files, not from those below another root. */
void conf_load(struct conf *conf, const struct host *host);

/* Returns the line that set a variable of the environment; NULL = not set by a file. */
const struct conf_line *conf_origin(const struct conf *conf, const char *name);

#endif
