/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other end of `anynet pair`. The first byte selects: an opening and a frame as read from a socket, or JSON as a
 * request to the server or as the server's half of a result. Accepted input must be within bounds, and output must be
 * text.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "tools/pair/print.h"
#include "tools/pair/request.h"
#include "tools/pair/wire.h"
#include "tools/shared/judge/verdict.h"
#include "tools/shared/memory.h"

#define SOCKET_MAX 60000 /* bytes that a socket takes without a reader */

static void read_socket(const uint8_t *data, size_t bytes)
{
	char opening[PAIR_OPENING_MAX + 1];
	json_t *message = NULL;
	uint32_t version;
	int fds[2];

	must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	must(!pair_write(fds[0], data, bytes < SOCKET_MAX ? bytes : SOCKET_MAX, 1000));
	must(!shutdown(fds[0], SHUT_WR));
	if (!pair_greet(fds[1], false, &version, opening, 1000)) {
		must(version == PAIR_VERSION);
		while (!pair_recv(fds[1], &message, 1000)) {
			must(json_is_object(message));
			json_decref(message);
		}
		must(!message);
	}
	close(fds[0]);
	close(fds[1]);
}

static void check_request(const json_t *message)
{
	struct request r;

	if (request_parse(message, &r))
		return;
	if (r.op == REQUEST_DIAL)
		must(r.dial_port >= 1024 && r.dial_port <= 65535 && r.dial.bytes >= 1 &&
		     r.dial.bytes <= DIAL_BYTES_MAX && r.dial.ms >= 1 && r.dial.ms <= DIAL_MS_MAX);
	if (r.op == REQUEST_PLUGIN)
		must(r.traffic.transport && r.traffic.channels >= 1 &&
		     r.traffic.channels <= TRAFFIC_CHANNELS_MAX && r.traffic.ms <= DIAL_MS_MAX &&
		     !r.traffic.plugin);
}

static void check_result(json_t *message)
{
	json_t *findings = verdict_find(message);
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	must(out && json_is_array(findings));
	json_object_set_new(message, "findings", findings);
	print_result(message, out, &(struct terminal){ .width = 60 });
	must(!fclose(out) && strlen(text) == bytes);
	for (const char *c = text; *c; c++)
		must((unsigned char)*c >= ' ' || *c == '\n');
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	json_t *message;

	if (!bytes--)
		return 0;
	if (data[0] & 1) {
		read_socket(data + 1, bytes);
		return 0;
	}
	message = json_loadb((const char *)data + 1, bytes, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(message)) {
		check_request(message);
		check_result(message);
	}
	json_decref(message);
	memory_release(0);
	return 0;
}
