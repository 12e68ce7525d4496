/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of a comm's connections, to which the input is written. */
#ifndef TESTS_FUZZ_PEER_H
#define TESTS_FUZZ_PEER_H

#include <nccl_net/wire.h>

#include "input.h"

#define STREAMS_MAX   3
#define HEADER_BYTES  sizeof(struct anynet_wire_frame)
#define CONTROL_BYTES (HEADER_BYTES + ANYNET_ACK_BYTES)

/* Writes what fits, without blocking. Returns the number of bytes; 0 as well if `fd` is -1 or broken. */
size_t peer_send(int fd, const void *data, size_t bytes);

/* Bytes of the input; the first of them is their number. */
void peer_garbage(int fd, struct input *in);

/* Both ends of a new connection, non-blocking: fds[0] for the comm. */
void peer_pair(int fds[2]);
void peer_close(int *fd);

/* A control frame as on the wire. Returns its size, at most CONTROL_BYTES. */
size_t control_image(struct anynet_wire_frame header, const void *payload, bool checksum,
		     uint8_t *image);

/* Sends it; `cut` bytes of its end are lost with the connection, which is then closed. */
void peer_say(int *fd, struct anynet_wire_frame header, const void *payload, bool checksum,
	      size_t cut);

#endif
