/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings from measurements. `result` is the document that `anynet pair --json` prints: "local"
 * and "remote" (facts.h), "way" with "local" and "remote", "clock", "ports", "tcp" and "plugin"
 * lists, and "failure" with "step" and "reason" if it ended early. Half of it comes from the other
 * host, which is not trusted: members may be missing or of any type.
 */
#ifndef JUDGE_VERDICT_H
#define JUDGE_VERDICT_H

#include <jansson.h>
#include <stdbool.h>

/* Returns all findings (finding.h), errors first. The caller releases them. */
json_t *verdict_find(const json_t *result);

/* How findings name the two hosts: the one of the client ("local"), and the one of the server ("remote"). */
struct verdict_hosts {
	const char *client, *server;
};

/* As verdict_find, without the comparison of "local" and "remote", and with other names for the two. */
json_t *verdict_link(const json_t *result, const struct verdict_hosts *hosts);

/* verdict_loss: share of retransmitted packets of a stream of dial.h. verdict_loses: that share is
 * a warning. */
double verdict_loss(const json_t *stream);
bool verdict_loses(const json_t *stream);

/*
 * Returns the stream with the lower loss, with the losses of all repetitions in "losses", and releases the other one. A
 * repetition that failed has lost nothing, and does not count.
 */
json_t *verdict_less_lost(json_t *one, json_t *other);

/* True if the only errors are failures of the measurement itself, so that nothing is known about NCCL. */
bool verdict_is_unmeasured(const json_t *findings);

/* Returns the bottleneck of a stream (dial.h, traffic.h): "sender", "sender's buffer", "receiver",
 * "receiver's window" or "network". */
const char *verdict_limit(const json_t *stream);

#endif
