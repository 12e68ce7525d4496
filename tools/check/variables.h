/* SPDX-License-Identifier: Apache-2.0 */
/* The variables of plugin/nccl_variables.def, and the values they accept. */
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
	int since,
		until; /* releases, encoded as in NCCL; since 0 = unknown, until 0 = still read */
	enum variable_syntax syntax;
	long least, most;
	const char *words; /* "a|b|c*": a '*' matches any ending */
	const char *meaning;
};

extern const struct nccl_variable nccl_variables[];
extern const size_t nccl_variable_count;

/* Finds a variable by its exact name; NULL = none. */
const struct nccl_variable *variable_of(const char *name);

/* Returns the variable with the nearest name, if it is near enough for a typo; else NULL. */
const struct nccl_variable *variable_meant(const char *typed);

/* True if the value is one of the words, ignoring case. */
bool variable_is_word(const char *words, const char *value);

/* True if the variable accepts the value. An empty value is accepted. */
bool variable_takes(const struct nccl_variable *variable, const char *value);

/* Describes the accepted values. */
const char *variable_accepts(const struct nccl_variable *variable);

#endif
