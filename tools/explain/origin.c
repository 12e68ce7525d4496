/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the prefixes of log lines token by token. */
#include "origin.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include <nccl_net/util.h>

#define HEAD         512     /* bytes parsed */
#define UNKNOWN_MAX  8       /* parsing stops after this many unknown words */
#define UNKNOWN_RANK 4       /* after this many, a rank in brackets is not the writer's */
#define RANK_MOST    9999999 /* larger numbers are not ranks */

struct head {
	const char *p, *end;
	struct origin *origin;
	bool first; /* only times and fillers precede p */
};

/* --- tokens: each function moves p past its token and returns true, or leaves p unchanged --- */

static bool take_number(const char **p, const char *end, int most, int *number)
{
	const char *q = *p;
	long value = 0;

	while (q < end && isdigit((unsigned char)*q) && value <= most)
		value = value * 10 + (*q++ - '0');
	if (q == *p || value > most)
		return false;
	*number = (int)value;
	*p = q;
	return true;
}

static bool take_text(const char **p, const char *end, const char *text)
{
	size_t bytes = strlen(text);

	if ((size_t)(end - *p) < bytes || memcmp(*p, text, bytes) != 0)
		return false;
	*p += bytes;
	return true;
}

/* Takes exactly `digits` digits. */
static bool take_digits(const char **p, const char *end, int digits, int *number)
{
	*number = 0;
	if (end - *p < digits)
		return false;
	for (int i = 0; i < digits; i++) {
		if (!isdigit((unsigned char)(*p)[i]))
			return false;
		*number = *number * 10 + ((*p)[i] - '0');
	}
	*p += digits;
	return true;
}

static bool is_host_char(char c)
{
	return isalnum((unsigned char)c) || c == '-' || c == '.' || c == '_';
}

static void set_host(struct origin *origin, const char *host, const char *end)
{
	size_t bytes = anynet_min((size_t)(end - host), ORIGIN_HOST - 1);

	memcpy(origin->host, host, bytes);
	origin->host[bytes] = '\0';
}

/* --- time --- */

static void set_time(struct origin *origin, int month, int day, int seconds, int64_t us)
{
	if (origin->time_us == ORIGIN_NO_TIME)
		origin->time_us = ((int64_t)(month * 31 + day) * 86400 + seconds) * 1000000 + us;
}

/* HH:MM:SS, with or without a fraction. */
static bool take_clock(const char **p, const char *end, int *seconds, int64_t *us)
{
	const char *q = *p;
	int hour, minute, second;

	if (!take_digits(&q, end, 2, &hour) || !take_text(&q, end, ":") ||
	    !take_digits(&q, end, 2, &minute) || !take_text(&q, end, ":") ||
	    !take_digits(&q, end, 2, &second))
		return false;
	*seconds = hour * 3600 + minute * 60 + second;
	*us = 0;
	if (end - q > 1 && (*q == '.' || *q == ',') && isdigit((unsigned char)q[1])) {
		int64_t unit = 100000;

		for (q++; q < end && isdigit((unsigned char)*q); q++, unit /= 10)
			*us += unit * (*q - '0');
	}
	*p = q;
	return true;
}

/* 2025-03-05T10:00:00.123+01:00; '/' may replace '-', and a blank the T. The time zone is ignored. */
static bool take_iso_time(struct head *h)
{
	const char *q = h->p;
	int year, month, day, seconds;
	int64_t us;

	if (!take_digits(&q, h->end, 4, &year) ||
	    !(take_text(&q, h->end, "-") || take_text(&q, h->end, "/")) ||
	    !take_digits(&q, h->end, 2, &month) ||
	    !(take_text(&q, h->end, "-") || take_text(&q, h->end, "/")) ||
	    !take_digits(&q, h->end, 2, &day) ||
	    !(take_text(&q, h->end, "T") || take_text(&q, h->end, " ")) ||
	    !take_clock(&q, h->end, &seconds, &us))
		return false;
	while (q < h->end &&
	       (isdigit((unsigned char)*q) || *q == 'Z' || *q == '+' || *q == ':' || *q == '-'))
		q++;
	set_time(h->origin, month, day, seconds, us);
	h->p = q;
	return true;
}

/* glog: E0501 10:00:00.123456; torch omits the leading zero of the month. */
static bool take_glog_time(struct head *h)
{
	const char *q = h->p;
	int month, day, seconds;
	int64_t us;

	if (q == h->end || !strchr("IWEFVD", *q) || !*q)
		return false;
	q++;
	if (!take_digits(&q, h->end, 4, &day) && !take_digits(&q, h->end, 3, &day))
		return false;
	month = day / 100;
	if (!take_text(&q, h->end, " ") || !take_clock(&q, h->end, &seconds, &us))
		return false;
	set_time(h->origin, month, day % 100, seconds, us);
	h->p = q;
	return true;
}

/* --- who --- */

/* NCCL: host:pid:tid [device]. The host may contain colons. */
static bool take_nccl(struct head *h)
{
	const char *end = h->p, *host_end, *pid, *tid, *q;
	int number, device;

	while (end < h->end && (is_host_char(*end) || *end == ':'))
		end++;
	for (tid = end; tid > h->p && tid[-1] != ':'; tid--)
		;
	if (tid == h->p || tid == end)
		return false;
	for (pid = tid - 1; pid > h->p && pid[-1] != ':'; pid--)
		;
	if (pid - 1 <= h->p)
		return false;
	q = tid;
	if (!take_number(&q, h->end, INT32_MAX - 1, &number) || q != end ||
	    !take_text(&q, h->end, " ["))
		return false;
	if (!take_number(&q, h->end, 4096, &device) || !take_text(&q, h->end, "]"))
		return false;
	host_end = pid - 1;
	if (!take_number(&pid, h->end, INT32_MAX - 1, &number) || *pid != ':')
		return false;
	set_host(h->origin, h->p, host_end);
	h->origin->pid = number;
	h->origin->device = device;
	h->p = q;
	return true;
}

/* [rank3], [Rank 3], [rank: 3], [1,3]<stdout>: */
static bool take_bracket(struct head *h)
{
	const char *q = h->p;
	int number;

	if (take_text(&q, h->end, "[rank") || take_text(&q, h->end, "[Rank") ||
	    take_text(&q, h->end, "[RANK")) {
		while (q < h->end && (*q == ' ' || *q == ':'))
			q++;
		if (!take_number(&q, h->end, RANK_MOST, &number) ||
		    !(take_text(&q, h->end, "]") || take_text(&q, h->end, ":") ||
		      take_text(&q, h->end, "/")))
			return false;
	} else if (h->first && take_text(&q, h->end, "[")) {
		if (!take_number(&q, h->end, RANK_MOST, &number) || !take_text(&q, h->end, ",") ||
		    !take_number(&q, h->end, RANK_MOST, &number) || !take_text(&q, h->end, "]<std"))
			return false;
		while (q < h->end && *q != ':' && *q != ' ')
			q++;
	} else {
		return false;
	}
	if (h->origin->rank < 0)
		h->origin->rank = number;
	take_text(&q, h->end, ":");
	h->p = q;
	return true;
}

/* (ClassName pid=123, ip=10.0.0.3) */
static bool take_ray(struct head *h)
{
	const char *q = h->p, *close = q < h->end ? memchr(q, ')', (size_t)(h->end - q)) : NULL;
	const char *pid = close ? memmem(q, (size_t)(close - q), "pid=", 4) : NULL;
	const char *ip = pid ? memmem(pid, (size_t)(close - pid), "ip=", 3) : NULL;
	int number;

	if (!h->first || q == h->end || *q != '(' || !pid)
		return false;
	pid += 4;
	if (!take_number(&pid, close, INT32_MAX - 1, &number))
		return false;
	h->origin->pid = number;
	if (ip) {
		const char *end = ip + 3;

		while (end < close && is_host_char(*end))
			end++;
		set_host(h->origin, ip + 3, end);
	}
	h->p = close + 1;
	return true;
}

/* "3: " (srun -l) or "node3: " (pdsh). A host label has a digit, but not first, and no upper case or '_'. */
static bool take_label(struct head *h)
{
	const char *q = h->p;
	bool digit = false;
	int number;

	if (!h->first)
		return false;
	if (take_number(&q, h->end, RANK_MOST, &number) && take_text(&q, h->end, ": ")) {
		h->origin->rank = number;
		h->p = q;
		return true;
	}
	for (q = h->p; q < h->end && is_host_char(*q) && !isupper((unsigned char)*q) && *q != '_';
	     q++)
		digit |= isdigit((unsigned char)*q) != 0;
	if (!digit || h->end - q < 2 || q[0] != ':' || q[1] != ' ' || q - h->p >= ORIGIN_HOST ||
	    isdigit((unsigned char)h->p[0]))
		return false;
	set_host(h->origin, h->p, q);
	h->p = q + 2;
	return true;
}

static bool is_filler(char c)
{
	return c == ' ' || c == '\t' || c == '[' || c == ']' || c == '\0' || c == ':' || c == '|';
}

void origin_parse(struct origin *origin, const char *line, size_t bytes)
{
	struct head h = { line, line + anynet_min(bytes, HEAD), origin, true };
	int unknown = 0;

	*origin = (struct origin){ .device = -1, .rank = -1, .time_us = ORIGIN_NO_TIME };
	while (h.p < h.end && unknown < UNKNOWN_MAX) {
		const char *before = h.p;

		if (take_iso_time(&h) || take_glog_time(&h))
			continue;
		if (take_nccl(&h)) {
			origin->message = (size_t)(h.p - line);
			break;
		}
		if ((unknown < UNKNOWN_RANK && take_bracket(&h)) || take_ray(&h) ||
		    take_label(&h)) {
			h.first = false;
		} else if (is_filler(*h.p)) {
			h.p++;
			continue;
		} else {
			/* The message begins at this unknown word, unless a known token follows it. */
			while (h.p < h.end && *h.p != ' ' && *h.p != '[')
				h.p++;
			h.first = false;
			unknown++;
			continue;
		}
		if (h.p == before)
			break;
		origin->message = (size_t)(h.p - line);
	}
	while (origin->message < bytes && (line[origin->message] == ' ' || !line[origin->message]))
		origin->message++;
}
