/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of all commands (docs/tool.md, JSON): one object with "anynet" (the version), "schema" (of this form; it grows
 * when a member goes or changes its meaning), "command", and the command's own members.
 */
#ifndef SHARED_DOCUMENT_H
#define SHARED_DOCUMENT_H

#include <jansson.h>
#include <stdio.h>

#define DOCUMENT_SCHEMA 1

/* Prints the members, which are released, as that command's. 0 or -ENOMEM, -EIO. */
int document_print(const char *command, json_t *members, FILE *out);

#endif
