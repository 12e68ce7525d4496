/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a host (live_facts.h) in several messages, because a message is limited (PAIR_FRAME_MAX). */
#ifndef CLUSTER_LIVE_PARTS_H
#define CLUSTER_LIVE_PARTS_H

#include <jansson.h>
#include <stddef.h>

#define LIVE_PARTS_MAX 256 /* of one host and look */

/* Returns the message with the facts from row `*row` on, and moves it behind them. Its "more" is true but in the last. */
json_t *live_part(const json_t *facts, size_t *row);

/* Appends the facts of a message. Releases `facts` and returns NULL if it has none. */
json_t *live_join(json_t *facts, const json_t *message);

#endif
