/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the measurements mean. `result` is the document that `anynet pair --json` prints: "local" and
 * "remote" (facts.h), "way" with "local" and "remote", "clock", "ports", "tcp" and "plugin" lists, and
 * "failure" with "step" and "reason" if it ended early. Half of it is the other host's word: members
 * may be missing or of any type.
 */
#ifndef PAIR_VERDICT_H
#define PAIR_VERDICT_H

#include <jansson.h>
#include <stdbool.h>

/* A list of "level" ("note", "warning", "error"), "what", "means" and "do", errors first. The caller
 * releases it. */
json_t *verdict_find(const json_t *result);

/* 0 fine (or notes), 1 warnings, 2 errors: the exit status. */
int verdict_status(const json_t *findings);

/* The plugin is given no device there that leads to another host; `way` is that end's. */
bool verdict_is_cut_off(const json_t *facts, const json_t *way);

/* Which side holds a stream of dial.h up: "sender", "sender's buffer", "receiver's window" or "network". */
const char *verdict_limit(const json_t *stream);

#endif
