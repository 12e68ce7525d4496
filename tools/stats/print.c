/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal's form of a view; see print.h. */
#include "print.h"

#include <stdarg.h>
#include <string.h>

#define LINE_BYTES 512

struct printer {
	const struct print_style *style;
	FILE *out;
	int lines;
};

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void line(struct printer *printer, enum trouble trouble, const char *fmt, ...)
{
	const char *colour = trouble >= TROUBLE_STALL  ? "\033[31m"
			     : trouble > TROUBLE_FLAPS ? "\033[33m"
						       : "";
	bool coloured = printer->style->colour && *colour;
	char text[LINE_BYTES];
	va_list args;

	if (printer->style->lines && printer->lines >= printer->style->lines)
		return;
	printer->lines++;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (strlen(text) > (size_t)printer->style->width)
		text[printer->style->width] = 0;
	fprintf(printer->out, "%s%s%s\n", coloured ? colour : "", text, coloured ? "\033[0m" : "");
}

/* Of static memory, of which four are in use at a time. */
static const char *amount(double bytes)
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

static double seconds(uint64_t ms)
{
	return (double)ms / 1000;
}

static const char *plural(size_t count)
{
	return count == 1 ? "" : "s";
}

/* --- connections --- */

static void print_rail(struct printer *printer, const struct connection *connection, int i,
		       const struct page *page)
{
	const struct anynet_stats_rail *rail = &connection->comm->rails[i];
	uint64_t down = view_age(page, rail->down_ms);
	char state[64] = "up", resent[48] = "", rtt[32] = "", carried[48] = "";

	if (rail->state == ANYNET_STATS_DOWN)
		snprintf(state, sizeof(state), "down for %.1f s", seconds(down));
	else if (rail->state == ANYNET_STATS_SUSPECT)
		snprintf(state, sizeof(state), "in doubt");
	if (rail->resent)
		snprintf(resent, sizeof(resent), ", %llu packets sent again",
			 (unsigned long long)rail->resent);
	if (rail->rtt_us)
		snprintf(rtt, sizeof(rtt), ", rtt %.2f ms", (double)rail->rtt_us / 1000);
	if (connection->comm->is_send)
		snprintf(carried, sizeof(carried), ", %s/s", amount(connection->rail_rates[i]));
	line(printer, rail->state == ANYNET_STATS_UP ? TROUBLE_NONE : TROUBLE_PATH,
	     "       rail %u %s %s %s%s, %llu frames%s%s  %s", rail->index,
	     rail->kind == ANYNET_STATS_QP ? "queue pair" : "TCP", rail->device, state, carried,
	     (unsigned long long)rail->frames, rtt, resent, rail->path);
}

static void print_connection(struct printer *printer, const struct connection *connection,
			     const struct page *page)
{
	const struct anynet_stats_comm *comm = connection->comm;
	bool troubled = connection->trouble > TROUBLE_FLAPS;
	char waits[64] = "", flaps[96] = "", trouble[32] = "";

	if (comm->pending)
		snprintf(waits, sizeof(waits), "  %u waiting, oldest %.1f s", comm->pending,
			 seconds(connection->oldest_ms));
	if (comm->breaks)
		snprintf(flaps, sizeof(flaps), "  broke %u, back %u", comm->breaks, comm->heals);
	if (troubled)
		snprintf(trouble, sizeof(trouble), "  %s", view_trouble_name(connection->trouble));
	line(printer, connection->trouble, "   %s %s %s pid %u  %s -> %s  %s/s, %s in all%s%s%s%s",
	     troubled ? "!" : " ", comm->is_send ? "to  " : "from", comm->peer_host, comm->peer_pid,
	     comm->device, comm->peer_device, amount(connection->rate), amount((double)comm->bytes),
	     trouble, waits, flaps, comm->closing ? "  closing" : "");
	if (connection->stalled_ms)
		line(printer, connection->trouble, "       nothing has moved for %.1f s: %s",
		     seconds(connection->stalled_ms), comm->asked);
	if (comm->error)
		line(printer, connection->trouble, "       failed: %s", strerror(-comm->error));
	for (int i = 0; i < ANYNET_STATS_RAILS; i++)
		if (comm->rails[i].kind && (troubled || printer->style->rails))
			print_rail(printer, connection, i, page);
}

/* --- processes --- */

static void print_process(struct printer *printer, const struct process *process)
{
	const struct anynet_stats_process *head = &process->page->process;
	size_t open = head->comms > process->count ? head->comms : process->count;
	char rank[32] = "";

	if (*head->rank)
		snprintf(rank, sizeof(rank), "rank %s ", head->rank);
	line(printer, process->silent_ms ? process->trouble : TROUBLE_NONE,
	     "  %spid %u %s  net %s  %zu connection%s  %s/s out, %s/s in", rank, head->pid,
	     head->program, head->net, open, plural(open), amount(process->sent),
	     amount(process->received));
	if (process->silent_ms)
		line(printer, process->trouble,
		     "    ! has not said anything for %.1f s: it is stopped, or gets no time",
		     seconds(process->silent_ms));
	for (size_t i = 0; i < process->count; i++)
		print_connection(printer, &process->connections[i], process->page);
}

static void print_wait(struct printer *printer, const struct wait *wait)
{
	const struct anynet_stats_process *head = &wait->process->page->process;
	const char *says = !wait->peer             ? ""
			   : wait->peer->silent_ms ? "; that one is stopped, or gets no time"
			   : wait->peer_waits      ? "; that one waits, too"
						   : "; that one waits for nobody";

	line(printer, TROUBLE_STALL, "  %s pid %u, for %s pid %u, %.1f s, over %u connection%s%s",
	     head->host, head->pid, wait->comm->peer_host, wait->comm->peer_pid, seconds(wait->ms),
	     wait->connections, plural(wait->connections), says);
}

static bool begins_job(const struct view *view, size_t i)
{
	const struct page *page = view->processes[i].page;

	return !i || page->uid != view->processes[i - 1].page->uid ||
	       strcmp(page->process.job, view->processes[i - 1].page->process.job) != 0;
}

void print_view(const struct view *view, const struct print_style *style, FILE *out)
{
	struct printer printer = { .style = style, .out = out };

	line(&printer, view->trouble, "%zu process%s, %zu connection%s, %s/s out, %s/s in: %s",
	     view->count, view->count == 1 ? "" : "es", view->connections,
	     plural(view->connections), amount(view->sent), amount(view->received),
	     view_trouble_name(view->trouble));
	if (view->wait_count)
		line(&printer, TROUBLE_STALL, "who waits for whom");
	for (size_t i = 0; i < view->wait_count; i++)
		print_wait(&printer, &view->waits[i]);
	for (size_t i = 0; i < view->count; i++) {
		const struct page *page = view->processes[i].page;

		if (begins_job(view, i))
			line(&printer, TROUBLE_NONE, "%s%s, user %u",
			     *page->process.job ? "job " : "no job's number", page->process.job,
			     (unsigned)page->uid);
		print_process(&printer, &view->processes[i]);
	}
}
