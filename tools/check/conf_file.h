/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NCCL's settings files: NCCL_CONF_FILE or ~/.nccl.conf, and /etc/nccl.conf. NCCL puts their entries
 * into the environment where that does not have them already; so does this, for the code that reads
 * the environment, and it keeps what came from where.
 */
#ifndef CHECK_CONF_FILE_H
#define CHECK_CONF_FILE_H

#include <stddef.h>

#include "host.h"

/* What NCCL keeps of a name and of a value. */
#define CONF_TEXT_BYTES 1024

enum conf_flaw {
	CONF_GOOD,
	CONF_NO_EQUALS,  /* NCCL skips the line */
	CONF_BLANK_NAME, /* a blank before or behind the name belongs to it */
	CONF_CARRIAGE,   /* the value ends in a carriage return */
	CONF_QUOTED,     /* quotes belong to the value */
	CONF_CUT,        /* name or value is longer than NCCL keeps */
	CONF_FOREIGN, /* the name is none of NCCL's or anynet's: not taken into the environment here */
};

/* One line that is neither empty nor a comment. */
struct conf_entry {
	char name[CONF_TEXT_BYTES];
	char value[CONF_TEXT_BYTES];
	unsigned line;
	enum conf_flaw flaw;
};

/* Called for each such line of a file. */
typedef void conf_visitor(const struct conf_entry *entry, void *context);

/* Go through the text of a file as NCCL does. `text` ends with a zero and may hold anything. */
void conf_parse(const char *text, conf_visitor *visit, void *context);

struct conf_line {
	struct conf_entry entry;
	const char *file; /* of struct conf */
	bool taken;       /* into the environment, which did not have it */
};

struct conf {
	char *files[2];   /* those that were asked for; NULL = none */
	bool readable[2]; /* and could be read */
	struct conf_line *lines;
	size_t count;
};

/* Read the files and put what is missing into this process's environment; names of libraries to load
 * (NCCL_IBVERBS_LIB) only from this host's own files, not from those below another root. */
void conf_load(struct conf *conf, const struct host *host);
void conf_free(struct conf *conf);

/* The line that a variable of the environment came from; NULL = from no file. */
const struct conf_line *conf_origin(const struct conf *conf, const char *name);

#endif
