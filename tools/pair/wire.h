/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection of `anynet pair` and `anynet serve`. Both ends open with 12 bytes, a magic and
 * the version of this protocol; then come frames, a length of 4 bytes (big endian) and so much JSON,
 * one object each. All functions take a deadline in milliseconds from now and return 0 or a negative
 * errno: -ETIMEDOUT, -ECONNRESET (also when the peer has closed), -EPROTO (not what it should be).
 * Sockets are non-blocking.
 */
#ifndef PAIR_WIRE_H
#define PAIR_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIR_PORT         4747
#define PAIR_VERSION      2
#define PAIR_FRAME_MAX    (256 * 1024)
#define PAIR_GREETING     12
#define PAIR_CONTROL_MSS  536 /* control frames pass every path, also one that eats large packets */
#define PAIR_OPENING_MAX 40 /* bytes that are kept of an opening that is not ours */
#define PAIR_NOISE_MAX    65536

uint64_t pair_now_ms(void);

int pair_write(int fd, const void *data, size_t bytes, int ms);
int pair_read(int fd, void *data, size_t bytes, int ms);

/*
 * The opening. The client speaks first; who says nothing right gets no answer. *version is the peer's; it is 0 if the peer did not say one. -EPROTO:
 * the peer is something else; its first bytes are then in `opening` (PAIR_OPENING_MAX + 1 bytes, a
 * string of printable characters; may be NULL). -EPROTONOSUPPORT: it has another version.
 */
int pair_greet(int fd, bool speaks_first, uint32_t *version, char *opening, int ms);

/* Its two halves: what this side says, and what it hears (-EPROTO as above; any version is fine). */
int pair_speak(int fd, int ms);
int pair_hear(int fd, uint32_t *version, char *opening, int ms);

/* The other end speaks first, behind whatever a login prints. */
int pair_greet_after_noise(int fd, uint32_t *version, int ms);

int pair_send(int fd, const json_t *message, int ms);
/* The same, and the message is released. */
int pair_send_new(int fd, json_t *message, int ms);
/* *message is an object, the caller's to release. */
int pair_recv(int fd, json_t **message, int ms);

#endif
