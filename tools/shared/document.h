/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON output of all commands (anynet(1), JSON): one object with "anynet" (the version), "schema"
 * (raised when a member is removed or changes its meaning), "command", and the members of the command.
 */
#ifndef SHARED_DOCUMENT_H
#define SHARED_DOCUMENT_H

#include <jansson.h>
#include <stdio.h>

/* Returns the output of `command`, and releases `members`. */
json_t *document_new(const char *command, json_t *members);

/* Prints `members` as the output of `command` and releases them. main checks that the output was written. */
void document_print(const char *command, json_t *members, FILE *out);

/* Returns a string of text_printable: `text` may have any bytes. */
json_t *document_text(const char *text);

#endif
