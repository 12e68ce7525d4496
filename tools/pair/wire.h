/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control connection of `anynet pair` and `anynet serve`. Both ends begin with 12 bytes, a
 * magic and the version of this protocol. Then follow frames: a length of 4 bytes (big endian) and
 * that many bytes of JSON, one object. All functions take a timeout in milliseconds and return 0 or
 * a negative errno: -ETIMEDOUT, -ECONNRESET (also if the peer has closed), -EPROTO (invalid data).
 * They never block in a socket call.
 */
#ifndef PAIR_WIRE_H
#define PAIR_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/shared/now.h"

#define PAIR_PORT        4747
#define PAIR_VERSION     2
#define PAIR_FRAME_MAX   (256 * 1024)
#define PAIR_GREETING    12
#define PAIR_CONTROL_MSS 536 /* small control frames pass every path, even an MTU black hole */
#define PAIR_OPENING_MAX 40  /* bytes kept of an invalid opening */
#define PAIR_NOISE_MAX   65536

int pair_write(int fd, const void *data, size_t bytes, int ms);
int pair_read(int fd, void *data, size_t bytes, int ms);

/*
 * Exchanges greetings. The client speaks first; the server answers only a valid greeting. *version is the
 * peer's version, or 0 if it sent none. -EPROTO: the peer speaks another protocol; its first bytes are in
 * `opening` (PAIR_OPENING_MAX + 1 bytes, printable; may be NULL). -EPROTONOSUPPORT: it has another version.
 */
int pair_greet(int fd, bool speaks_first, uint32_t *version, char *opening, int ms);

/* The two halves of pair_greet: send the greeting, and read it (-EPROTO as above; accepts any version). */
int pair_speak(int fd, int ms);
int pair_hear(int fd, uint32_t *version, char *opening, int ms);

/* As pair_greet if the other end speaks first, after output of its login shell. */
int pair_greet_after_noise(int fd, uint32_t *version, int ms);

int pair_send(int fd, const json_t *message, int ms);
/* As pair_send; releases the message. */
int pair_send_new(int fd, json_t *message, int ms);
/* Receives an object; the caller releases it. */
int pair_recv(int fd, json_t **message, int ms);

#endif
