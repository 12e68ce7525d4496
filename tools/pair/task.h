/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A measurement in a child process: it cannot change the state of the parent, and can be killed at
 * any time. It returns one JSON object through a socket. The child dies with its parent.
 */
#ifndef PAIR_TASK_H
#define PAIR_TASK_H

#include <jansson.h>

/*
 * Forks a process that sends the object of run(arg), waits for at most `ms`, and kills the process if it still runs.
 * Returns its object, or {"error": text} if it sent none; the caller releases it. `what` names the process in the text.
 * Returns NULL if `watched` becomes readable; -1 = no such socket. No other thread may run.
 */
json_t *task_run(json_t *(*run)(void *arg), void *arg, int ms, const char *what, int watched);

#endif
