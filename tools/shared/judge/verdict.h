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
#include <stddef.h>

/* Findings (finding.h), errors first. The caller releases them. */
json_t *verdict_find(const json_t *result);

/* Those of the way between the hosts alone, without "local" and "remote". */
json_t *verdict_link(const json_t *result);

/* The share of packets that a stream of dial.h retransmitted; and that it is so many that it is a warning. */
double verdict_loss(const json_t *stream);
bool verdict_loses(const json_t *stream);

/* That nothing but the measuring itself has failed: nothing is said of NCCL. */
bool verdict_is_unmeasured(const json_t *findings);

/* What holds a stream (dial.h, traffic.h) up: "sender", "sender's buffer", "receiver", "receiver's window"
 * or "network". */
const char *verdict_limit(const json_t *stream);

#endif
