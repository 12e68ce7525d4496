/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of statistics files; see metrics.h. */
#include "metrics.h"

#include <stdlib.h>
#include <string.h>

#include <nccl_net/util.h>

#include "tools/shared/memory.h"
#include "tools/shared/now.h"

/* The subject of a sample: a process, one of its comms, or one of its streams. */
struct row {
	const struct page *page;
	const struct anynet_stats_comm *comm;
	const struct anynet_stats_stream *stream;
};

enum subject {
	OF_PROCESS,
	OF_CONNECTION,
	OF_STREAM,
	SUBJECTS
};

struct rows {
	struct row *row[SUBJECTS];
	size_t count[SUBJECTS];
	size_t left_out; /* processes, connections and streams that are not exported */
	size_t users,
		share[SUBJECTS]; /* number of users; maximum number of rows of one user, not of processes */
	struct user {
		uid_t uid;
		size_t count[SUBJECTS]; /* rows so far */
	} * user;
};

enum unit {
	UNIT_NUMBER,
	UNIT_SINCE,  /* milliseconds of a start time; exported as its age in seconds */
	UNIT_BIRTH,  /* milliseconds of a start time; exported as seconds since 1970 */
	UNIT_MICRO,  /* microseconds; exported as seconds */
	UNIT_IS_SET, /* exported as 1 if not 0 */
	UNIT_IS_UP,  /* exported as 1 if ANYNET_STATS_UP */
	UNIT_IS_QP,  /* exported as 1 if ANYNET_STATS_QP */
};

struct metric {
	const char *name, *type, *help;
	enum subject of;
	enum unit unit;
	size_t at, bytes; /* offset and size of the field in its record */
};

#define FIELD(record, field)                           \
	offsetof(struct anynet_stats_##record, field), \
		sizeof(((struct anynet_stats_##record *)NULL)->field)
#define COUNTER "counter"
#define GAUGE   "gauge"

static const struct metric metrics[] = {
	{ "anynet_process_connections", GAUGE, "Open connections.", OF_PROCESS, UNIT_NUMBER,
	  FIELD(process, comms) },
	{ "anynet_process_start_time_seconds", GAUGE,
	  "Time when the process opened its first connection, since the epoch.", OF_PROCESS,
	  UNIT_BIRTH, FIELD(process, started_ms) },
	{ "anynet_process_silence_seconds", GAUGE,
	  "Age of the statistics of the process; more than 1: it is stopped, or gets no CPU time.",
	  OF_PROCESS, UNIT_SINCE, FIELD(process, written_ms) },
	{ "anynet_connection_bytes_total", COUNTER, "Payload sent or received.", OF_CONNECTION,
	  UNIT_NUMBER, FIELD(comm, bytes) },
	{ "anynet_connection_requests_total", COUNTER, "Send or receive requests.", OF_CONNECTION,
	  UNIT_NUMBER, FIELD(comm, requests) },
	{ "anynet_connection_pending_requests", GAUGE, "Pending requests.", OF_CONNECTION,
	  UNIT_NUMBER, FIELD(comm, pending) },
	{ "anynet_connection_oldest_request_seconds", GAUGE, "Age of the oldest pending request.",
	  OF_CONNECTION, UNIT_SINCE, FIELD(comm, oldest_ms) },
	{ "anynet_connection_stalled_seconds", GAUGE,
	  "Time without progress while requests are pending.", OF_CONNECTION, UNIT_SINCE,
	  FIELD(comm, stalled_ms) },
	{ "anynet_connection_stalls_total", COUNTER,
	  "Number of times that requests waited for ANYNET_STALL_WARN.", OF_CONNECTION, UNIT_NUMBER,
	  FIELD(comm, stalls) },
	{ "anynet_connection_breaks_total", COUNTER, "Paths that broke.", OF_CONNECTION,
	  UNIT_NUMBER, FIELD(comm, breaks) },
	{ "anynet_connection_recoveries_total", COUNTER, "Paths that were replaced.", OF_CONNECTION,
	  UNIT_NUMBER, FIELD(comm, recoveries) },
	{ "anynet_connection_replayed_frames_total", COUNTER,
	  "Frames retransmitted over new paths.", OF_CONNECTION, UNIT_NUMBER, FIELD(comm, again) },
	{ "anynet_connection_failed", GAUGE, "1: it has failed.", OF_CONNECTION, UNIT_IS_SET,
	  FIELD(comm, error) },
	{ "anynet_path_up", GAUGE, "1: it has a connection and is not suspect.", OF_STREAM,
	  UNIT_IS_UP, FIELD(stream, state) },
	{ "anynet_path_queue_pair", GAUGE, "1: a queue pair, 0: TCP.", OF_STREAM, UNIT_IS_QP,
	  FIELD(stream, kind) },
	{ "anynet_path_bytes_total", COUNTER, "Payload sent over it; senders only.", OF_STREAM,
	  UNIT_NUMBER, FIELD(stream, bytes) },
	{ "anynet_path_frames_total", COUNTER, "Frames sent or received.", OF_STREAM, UNIT_NUMBER,
	  FIELD(stream, frames) },
	{ "anynet_path_breaks_total", COUNTER, "Breaks of the path.", OF_STREAM, UNIT_NUMBER,
	  FIELD(stream, breaks) },
	{ "anynet_path_retransmitted_packets_total", COUNTER,
	  "Packets retransmitted by the kernel, on the current connection.", OF_STREAM, UNIT_NUMBER,
	  FIELD(stream, resent) },
	{ "anynet_path_rtt_seconds", GAUGE, "Round-trip time; 0: unknown.", OF_STREAM, UNIT_MICRO,
	  FIELD(stream, rtt_us) },
};

/* --- rows --- */

static bool same_process(const struct page *a, const struct page *b)
{
	return a->uid == b->uid && a->process.pid == b->process.pid &&
	       !strcmp(a->process.host, b->process.host);
}

/* Whether an earlier page has the same labels: processes of different containers may have the same pid. */
static bool is_duplicate(const struct page_list *pages, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (same_process(&pages->pages[k], &pages->pages[i]))
			return true;
	return false;
}

static int by_id(const void *a, const void *b)
{
	const struct anynet_stats_comm *const *x = a, *const *y = b;

	return ((*x)->id > (*y)->id) - ((*x)->id < (*y)->id);
}

static struct user *user_of(struct rows *rows, uid_t uid)
{
	for (size_t i = 0; i < rows->users; i++) {
		if (rows->user[i].uid == uid)
			return &rows->user[i];
	}
	rows->user = memory_resize(rows->user, (rows->users + 1) * sizeof(*rows->user));
	rows->user[rows->users] = (struct user){ .uid = uid };
	return &rows->user[rows->users++];
}

static size_t count_streams(const struct anynet_stats_comm *comm)
{
	size_t count = 0;

	for (int i = 0; i < ANYNET_STATS_STREAMS; i++)
		count += comm->streams[i].kind != 0;
	return count;
}

/* Divides the limits between the users, by the numbers of connections and streams that they have. */
static void share_out(struct rows *rows, const struct page_list *pages)
{
	const size_t room[SUBJECTS] = {
		[OF_CONNECTION] = METRICS_CONNECTIONS_MAX, [OF_STREAM] = METRICS_STREAMS_MAX
	};
	size_t *wants;

	for (size_t i = 0; i < pages->count; i++) {
		const struct page *page = &pages->pages[i];
		struct user *user = user_of(rows, page->uid);

		user->count[OF_CONNECTION] += page->count;
		for (size_t k = 0; k < page->count; k++)
			user->count[OF_STREAM] += count_streams(&page->comms[k]);
	}
	wants = memory_get(rows->users * sizeof(*wants));
	for (int of = OF_CONNECTION; of < SUBJECTS; of++) {
		for (size_t i = 0; i < rows->users; i++) {
			wants[i] = rows->user[i].count[of];
			rows->user[i].count[of] = 0;
		}
		rows->share[of] = page_share(wants, rows->users, room[of]);
	}
}

/* Returns whether the page's user may have another row, and counts it. */
static bool has_room(struct rows *rows, enum subject of, const struct page *page)
{
	struct user *user = user_of(rows, page->uid);

	return user->count[of] < rows->share[of] && ++user->count[of];
}

static void add_streams(struct rows *rows, const struct row *connection)
{
	const struct anynet_stats_stream *streams = connection->comm->streams;

	for (int i = 0; i < ANYNET_STATS_STREAMS; i++) {
		bool twice = false;

		for (int k = 0; k < i; k++)
			twice |= streams[k].kind && streams[k].index == streams[i].index;
		if (!streams[i].kind)
			continue;
		if (twice || !has_room(rows, OF_STREAM, connection->page)) {
			rows->left_out++;
			continue;
		}
		rows->row[OF_STREAM][rows->count[OF_STREAM]] = *connection;
		rows->row[OF_STREAM][rows->count[OF_STREAM]++].stream = &streams[i];
	}
}

static void add_connections(struct rows *rows, const struct page *page)
{
	const struct anynet_stats_comm **sorted = memory_get(page->count * sizeof(*sorted));

	for (size_t i = 0; i < page->count; i++)
		sorted[i] = &page->comms[i];
	qsort(sorted, page->count, sizeof(*sorted), by_id);
	for (size_t i = 0; i < page->count; i++) {
		struct row row = { page, sorted[i], NULL };

		if ((i && sorted[i]->id == sorted[i - 1]->id) ||
		    !has_room(rows, OF_CONNECTION, page)) {
			rows->left_out += 1 + count_streams(sorted[i]);
			continue;
		}
		rows->row[OF_CONNECTION][rows->count[OF_CONNECTION]++] = row;
		add_streams(rows, &row);
	}
}

static void leave_out_process(struct rows *rows, const struct page *page)
{
	rows->left_out += 1 + page->count;
	for (size_t i = 0; i < page->count; i++)
		rows->left_out += count_streams(&page->comms[i]);
}

static void collect(struct rows *rows, const struct page_list *pages)
{
	const size_t room[SUBJECTS] = { pages->count, METRICS_CONNECTIONS_MAX,
					METRICS_STREAMS_MAX };

	share_out(rows, pages);
	rows->left_out = pages->left_out;
	for (int i = 0; i < SUBJECTS; i++)
		rows->row[i] = memory_get(room[i] * sizeof(*rows->row[i]));
	for (size_t i = 0; i < pages->count; i++) {
		if (is_duplicate(pages, i)) {
			leave_out_process(rows, &pages->pages[i]);
			continue;
		}
		rows->row[OF_PROCESS][rows->count[OF_PROCESS]++].page = &pages->pages[i];
		add_connections(rows, &pages->pages[i]);
	}
}

/* --- the text --- */

/* Writes a label. `value` is printable; only '"' and '\' need an escape. */
static void put_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('"', out);
}

static void put_labels(FILE *out, const struct row *row)
{
	const struct anynet_stats_process *process = &row->page->process;

	fprintf(out, "{pid=\"%u\",uid=\"%u\",", process->pid, (unsigned)row->page->uid);
	put_label(out, "host", process->host);
	put_label(out, ",job_id", process->job);
	put_label(out, ",rank", process->rank);
	if (row->comm) {
		fprintf(out, ",connection=\"%llu\",direction=\"%s\",",
			(unsigned long long)row->comm->id, row->comm->is_send ? "send" : "receive");
		put_label(out, "device", row->stream ? row->stream->device : row->comm->device);
		put_label(out, ",peer_host", row->comm->peer_host);
		fprintf(out, ",peer_pid=\"%u\"", row->comm->peer_pid);
	}
	if (row->stream)
		fprintf(out, ",path=\"%u\"", row->stream->index);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "field_of copies short fields to its value");

static uint64_t field_of(const struct metric *metric, const struct row *row)
{
	const void *const records[SUBJECTS] = { &row->page->process, row->comm, row->stream };
	const uint8_t *from = (const uint8_t *)records[metric->of] + metric->at;
	uint64_t value = 0;

	memcpy(&value, from, metric->bytes);
	return value;
}

static double age_of(const struct row *row, uint64_t since_ms)
{
	return (double)page_age(row->page, since_ms) / 1000;
}

static void put_value(FILE *out, const struct metric *metric, const struct row *row)
{
	uint64_t value = field_of(metric, row);

	switch (metric->unit) {
	case UNIT_SINCE:
		fprintf(out, "%.3f\n", age_of(row, value));
		break;
	case UNIT_BIRTH:
		fprintf(out, "%.0f\n", (double)now_wall_ns() / 1e9 - age_of(row, value));
		break;
	case UNIT_MICRO:
		fprintf(out, "%.6f\n", (double)value / 1e6);
		break;
	case UNIT_IS_SET:
		fprintf(out, "%d\n", value != 0);
		break;
	case UNIT_IS_UP:
		fprintf(out, "%d\n", value == ANYNET_STATS_UP);
		break;
	case UNIT_IS_QP:
		fprintf(out, "%d\n", value == ANYNET_STATS_QP);
		break;
	default:
		fprintf(out, "%llu\n", (unsigned long long)value);
	}
}

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_metric(FILE *out, const struct metric *metric, const struct rows *rows)
{
	put_head(out, metric->name, metric->type, metric->help);
	for (size_t i = 0; i < rows->count[metric->of]; i++) {
		const struct row *row = &rows->row[metric->of][i];

		fputs(metric->name, out);
		put_labels(out, row);
		fputs("} ", out);
		put_value(out, metric, row);
	}
}

/* The constant attributes of a process are labels of one metric. */
static void put_info(FILE *out, const struct rows *rows)
{
	put_head(out, "anynet_process_info", GAUGE, "1; the labels describe the process.");
	for (size_t i = 0; i < rows->count[OF_PROCESS]; i++) {
		const struct row *row = &rows->row[OF_PROCESS][i];

		fputs("anynet_process_info", out);
		put_labels(out, row);
		put_label(out, ",program", row->page->process.program);
		put_label(out, ",net", row->page->process.net);
		put_label(out, ",anynet", row->page->process.plugin);
		fprintf(out, ",nccl=\"%u\"} 1\n", row->page->process.nccl_version);
	}
}

void metrics_write(const struct page_list *pages, FILE *out)
{
	uint64_t mark = memory_mark();
	struct rows rows = { 0 };

	collect(&rows, pages);
	put_head(out, "anynet_processes", GAUGE, "Processes with open connections.");
	fprintf(out, "anynet_processes %zu\n", rows.count[OF_PROCESS]);
	put_head(
		out, "anynet_left_out", GAUGE,
		"Processes, connections and paths that are not exported: too many, or of the same name.");
	fprintf(out, "anynet_left_out %zu\n", rows.left_out);
	put_info(out, &rows);
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
		put_metric(out, &metrics[i], &rows);
	memory_release(mark);
}
