/* SPDX-License-Identifier: Apache-2.0 */
/* Text helpers; see words.h. */
#include "words.h"

#include <stdio.h>
#include <string.h>

#include "tools/shared/now.h"

const char *words_amount(double bytes)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
	static char texts[4][32];
	static unsigned next;
	char *text = texts[next++ % 4];
	size_t unit = 0;

	if (bytes < 0)
		return "?";
	for (; bytes >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
		bytes /= 1000;
	snprintf(text, sizeof(texts[0]), unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
	return text;
}

double words_seconds(uint64_t ms)
{
	return (double)ms / 1000;
}

const char *words_plural(size_t count)
{
	return count == 1 ? "" : "s";
}

const char *words_stream(const struct connection *connection, int i, const struct page *page,
			 char *text)
{
	const struct anynet_stats_stream *stream = &connection->comm->streams[i];
	double rate = connection->stream_rates[i];
	char state[64] = "up", resent[48] = "", rtt[32] = "", carried[48] = "";

	if (stream->state == ANYNET_STATS_DOWN)
		snprintf(state, sizeof(state), "down for %.1f s",
			 words_seconds(page_age(page, stream->down_ms)));
	else if (stream->state == ANYNET_STATS_SUSPECT)
		snprintf(state, sizeof(state), "suspect");
	if (stream->resent)
		snprintf(resent, sizeof(resent), ", %llu packets retransmitted",
			 (unsigned long long)stream->resent);
	if (stream->rtt_us)
		snprintf(rtt, sizeof(rtt), ", rtt %.2f ms", (double)stream->rtt_us / 1000);
	if (connection->comm->is_send)
		snprintf(carried, sizeof(carried), rate < 0 ? ", %s" : ", %s/s",
			 words_amount(rate < 0 ? (double)stream->bytes : rate));
	snprintf(text, WORDS_LINE, "path %u %s %s %s%s, %llu frames%s%s  %s", stream->index,
		 stream->kind == ANYNET_STATS_QP ? "queue pair" : "TCP", stream->device, state,
		 carried, (unsigned long long)stream->frames, rtt, resent, stream->path);
	return text;
}

const char *words_time(const struct page *page, uint64_t at_ms, char *text)
{
	uint64_t age_ms = now_ms() - page->read_ms + page_age(page, at_ms);
	uint64_t ms = now_wall_ns() / 1000000 - age_ms;
	char seconds[NOW_UTC_BYTES];

	snprintf(text, WORDS_TIME, "%s.%03uZ", time_text((time_t)(ms / 1000), seconds),
		 (unsigned)(ms % 1000));
	return text;
}
