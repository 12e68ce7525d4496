/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of plugin/nccl_variables.def, and what values they take. */
#ifndef CHECK_VARIABLES_H
#define CHECK_VARIABLES_H

#include <stdbool.h>
#include <stddef.h>

enum variable_group {
	VARIABLE_NET,
	VARIABLE_CORE,
	VARIABLE_TORCH,
	VARIABLE_OTHERS
};

enum variable_syntax {
	SYNTAX_FLAG,
	SYNTAX_INT,
	SYNTAX_AUTO,
	SYNTAX_NUMBER,
	SYNTAX_TEXT,
	SYNTAX_WORD,
	SYNTAX_WORDS,
	SYNTAX_LEVEL,
	SYNTAX_IFNAMES,
	SYNTAX_HCAS,
	SYNTAX_FAMILY,
	SYNTAX_CIDR,
	SYNTAX_PORT,
	SYNTAX_FILE,
	SYNTAX_LIBRARY,
	SYNTAX_KINDS,
};

struct nccl_variable {
	const char *name;
	enum variable_group group;
	int since, until; /* releases as NCCL counts; 0 = not known, and: still read */
	enum variable_syntax syntax;
	long least, most;
	const char *words; /* "a|b|c*": a * stands for any ending */
	const char *meaning;
};

extern const struct nccl_variable nccl_variables[];
extern const size_t nccl_variable_count;

/* By its very name; NULL = there is none. */
const struct nccl_variable *variable_of(const char *name);

/* The one whose name is nearest to what was typed, if that is near enough to be a typo; else NULL. */
const struct nccl_variable *variable_meant(const char *typed);

/* Is this a value for it? An empty one is. */
bool variable_takes(const struct nccl_variable *variable, const char *value);

/* What it takes, in words. The caller's. */
char *variable_accepts(const struct nccl_variable *variable);

#endif
