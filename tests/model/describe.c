/* SPDX-License-Identifier: Apache-2.0 */
/* A step and the state after it, on one line: for the path to a fault. */
#include "model.h"

#include <stdio.h>

static const char *const names[STEP_KINDS] = {
	[STEP_POST] = "isend",
	[STEP_WRITE] = "sender writes a frame",
	[STEP_CONTROL] = "sender reads control",
	[STEP_NOTICE] = "sender finds it broken",
	[STEP_REDIAL] = "sender dials once more",
	[STEP_WELCOME] = "sender reads WELCOME",
	[STEP_OVER] = "sender has done with it",
	[STEP_RECV_POST] = "irecv",
	[STEP_READ] = "receiver reads",
	[STEP_TELL] = "receiver tells",
	[STEP_HELLO] = "hello arrives",
	[STEP_RECV_CLOSE] = "closeRecv",
	[STEP_RECV_GONE] = "receiver is gone",
	[STEP_SWITCH] = "receiver fences late",
	[STEP_CUT] = "connection cut",
	[STEP_DIAL] = "sender dials beside it",
	[STEP_OLD_HELLO] = "old hello",
	[STEP_RECV_NOTICE] = "receiver finds it broken",
};

static void print_frame(uint8_t frame)
{
	static const char *const types[] = { "m", "rts", "bye" };

	printf(" %s", types[FRAME_TYPE(frame)]);
	if (FRAME_TYPE(frame) != FRAME_BYE)
		printf("%u", FRAME_MESSAGE(frame));
	if (FRAME_TYPE(frame) == FRAME_DATA)
		printf(".%u", FRAME_CHUNK(frame));
}

static void print_queue(const char *name, const struct control_queue *queue)
{
	static const char *const controls[] = { "bits", "ack", "cts", "bye" };

	for (unsigned i = 0; i < queue->count; i++)
		printf("%s %s %x", i ? "," : name, controls[CONTROL_TYPE(queue->frames[i])],
		       CONTROL_BODY(queue->frames[i]));
}

static void print_stream(const struct stream_state *stream)
{
	static const char *const phases[] = { "down", "up", "over" };
	static const char *const hellos[] = { "", " hello", " welcome" };
	static const char *const conns[] = { "joined", "dialled", "alone", "closed" };

	printf("  [%s%s%s", phases[stream->phase],
	       stream->phase == PHASE_UP && !stream->alive ? " cut" : "", hellos[stream->hello]);
	if (stream->hello)
		printf("%u%s", stream->epoch, stream->dial_alive ? "" : " cut");
	printf(" %s%u N%u p%u | log", conns[stream->conn], stream->fenced, stream->consumed,
	       stream->part);
	for (unsigned i = 0; i < stream->logged; i++) {
		if (i == stream->at)
			printf(stream->header ? " >%u:" : " >", stream->units);
		print_frame(stream->log[i]);
		if (i + 1u == stream->limit)
			printf(" <");
		if (i + 1u == stream->written && stream->written < stream->logged)
			printf(" /");
	}
	print_queue(" |", &stream->control);
	print_queue(" | dialled:", &stream->dial_control);
	printf("]");
}

void step_print(const struct model_config *cfg, struct step step, const struct model_state *after)
{
	static const char *const sends[] = { "-", "queued", "asked", "given", "acked" };
	static const char *const ranks[] = { "-",       "waiting",  "matched",
					     "cleared", "complete", "told" };

	printf("  stream %u: %-24s", step.stream, names[step.kind]);
	if (step.kind == STEP_OLD_HELLO)
		printf(" (epoch %u)", step.arg + 1u);
	for (unsigned i = 0; i < cfg->count; i++)
		printf(" %s", sends[after->sends[i].state]);
	printf(" /");
	for (unsigned i = 0; i < cfg->slots; i++)
		printf(" %u:%s%s%.*u", after->slots[i].message, ranks[after->slots[i].rank],
		       after->slots[i].told_on ? "@" : "", after->slots[i].told_on ? 1 : 0,
		       after->slots[i].told_on ? after->slots[i].told_on - 1u : 0);
	for (unsigned r = 0; r < STREAMS; r++)
		print_stream(&after->streams[r]);
	printf("\n");
}
