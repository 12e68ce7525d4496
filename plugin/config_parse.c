/* SPDX-License-Identifier: Apache-2.0 */
/* The parsers of the settings; see config_parse.h. */
#include "config_parse.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <nccl_net/subnet.h>
#include <nccl_net/util.h>

#define CHUNK_MULTIPLE 128 /* an LL128 line must not be split (net-api.md §3.5) */

const struct anynet_choice anynet_switch_choices[] = {
	{ "auto", ANYNET_SWITCH_AUTO },
	{ "on", ANYNET_SWITCH_ON },
	{ "off", ANYNET_SWITCH_OFF },
	{ "1", ANYNET_SWITCH_ON },
	{ "0", ANYNET_SWITCH_OFF },
	{ "yes", ANYNET_SWITCH_ON },
	{ "no", ANYNET_SWITCH_OFF },
	{ "true", ANYNET_SWITCH_ON },
	{ "false", ANYNET_SWITCH_OFF },
	{ "-1", ANYNET_SWITCH_AUTO },
	{ .text = NULL },
};

const struct anynet_choice anynet_transport_choices[] = {
	{ "auto", ANYNET_CHOOSE_AUTO },
	{ "ib", ANYNET_CHOOSE_IB },
	{ "tcp", ANYNET_CHOOSE_TCP },
	{ "socket", ANYNET_CHOOSE_TCP },
	{ .text = NULL },
};

const struct anynet_choice anynet_family_choices[] = {
	{ "any", AF_UNSPEC },
	{ "AF_INET", AF_INET },
	{ "AF_INET6", AF_INET6 },
	{ "auto", AF_UNSPEC },
	{ .text = NULL },
};

static void *field(const struct anynet_config_row *row, struct anynet_config *cfg)
{
	return (char *)cfg + row->offset;
}

static int choose(const struct anynet_choice *choice, const char *text, int *value)
{
	for (; choice->text; choice++) {
		if (anynet_same_word(text, choice->text)) {
			*value = choice->value;
			return 0;
		}
	}
	return -EINVAL;
}

/* Parse the number at the start of `text`; *end points behind it. */
static int leading_number(const char *text, long *value, const char **end)
{
	char *stop;
	long long number;

	errno = 0;
	number = strtoll(text, &stop, 0);
	if (errno || stop == text || number < LONG_MIN || number > LONG_MAX)
		return -EINVAL;
	*value = (long)number;
	*end = stop;
	return 0;
}

int anynet_parse_number(const char *text, long *value)
{
	const char *end;
	long number;

	if (leading_number(text, &number, &end) || *end)
		return -EINVAL;
	*value = number;
	return 0;
}

struct unit {
	const char *text;
	long factor;
};

/* Parse a number followed by one of `units`; the product must be within the row's bounds. */
static int number_with_unit(const struct anynet_config_row *row, const char *text,
			    const struct unit *units, size_t count, long *value)
{
	const char *end;
	long number;

	if (leading_number(text, &number, &end))
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		if (!anynet_same_word(end, units[i].text))
			continue;
		if (__builtin_mul_overflow(number, units[i].factor, &number))
			return -EINVAL;
		if (number < row->min || number > row->max)
			return -EINVAL;
		*value = number;
		return 0;
	}
	return -EINVAL;
}

static int bytes_of(const struct anynet_config_row *row, const char *text, long *value)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "k", 1L << 10 },
		{ "m", 1L << 20 },
		{ "g", 1L << 30 },
	};

	return number_with_unit(row, text, units, ARRAY_SIZE(units), value);
}

static bool means_auto(const char *text)
{
	/* NCCL's variables use -1 and -2 for "automatic". */
	return anynet_same_word(text, "auto") || !strcmp(text, "-1") || !strcmp(text, "-2");
}

int anynet_parse_flag(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	bool *flag = field(row, cfg);
	long number;
	int value;

	if (!anynet_parse_number(text, &number))
		*flag = number != 0; /* as NCCL reads NCCL_IB_DISABLE */
	else if (!choose(anynet_switch_choices, text, &value) && value != ANYNET_SWITCH_AUTO)
		*flag = value == ANYNET_SWITCH_ON;
	else
		return -EINVAL;
	return 0;
}

int anynet_parse_choice(const struct anynet_config_row *row, const char *text,
			struct anynet_config *cfg)
{
	return choose(row->choices, text, field(row, cfg));
}

int anynet_parse_int(const struct anynet_config_row *row, const char *text,
		     struct anynet_config *cfg)
{
	long number;

	if (anynet_parse_number(text, &number) || number < row->min || number > row->max)
		return -EINVAL;
	*(int *)field(row, cfg) = (int)number;
	return 0;
}

int anynet_parse_auto_int(const struct anynet_config_row *row, const char *text,
			  struct anynet_config *cfg)
{
	if (!means_auto(text))
		return anynet_parse_int(row, text, cfg);
	*(int *)field(row, cfg) = ANYNET_AUTO;
	return 0;
}

int anynet_parse_size(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	long bytes;

	if (bytes_of(row, text, &bytes))
		return -EINVAL;
	*(size_t *)field(row, cfg) = (size_t)bytes;
	return 0;
}

int anynet_parse_chunk(const struct anynet_config_row *row, const char *text,
		       struct anynet_config *cfg)
{
	long bytes;

	if (bytes_of(row, text, &bytes) || bytes % CHUNK_MULTIPLE)
		return -EINVAL;
	*(size_t *)field(row, cfg) = (size_t)bytes;
	return 0;
}

int anynet_parse_auto_size(const struct anynet_config_row *row, const char *text,
			   struct anynet_config *cfg)
{
	long bytes = ANYNET_AUTO;

	if (!means_auto(text) && bytes_of(row, text, &bytes))
		return -EINVAL;
	*(int *)field(row, cfg) = (int)bytes;
	return 0;
}

int anynet_parse_time(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	static const struct unit units[] = {
		{ "", 1000 },
		{ "ms", 1 },
		{ "s", 1000 },
		{ "min", 60 * 1000 },
	};
	long ms;

	if (number_with_unit(row, text, units, ARRAY_SIZE(units), &ms))
		return -EINVAL;
	*(int *)field(row, cfg) = (int)ms;
	return 0;
}

int anynet_parse_text(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	size_t bytes = strlen(text);

	if (bytes > (size_t)row->max)
		return -EINVAL;
	memcpy(field(row, cfg), text, bytes + 1);
	return 0;
}

int anynet_parse_path(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	return *text && *text != '/' ? -EINVAL : anynet_parse_text(row, text, cfg);
}

int anynet_parse_directory(const struct anynet_config_row *row, const char *text,
			   struct anynet_config *cfg)
{
	if (anynet_same_word(text, "auto") || anynet_same_word(text, "off"))
		text = anynet_same_word(text, "auto") ? "auto" : "off";
	else if (*text != '/')
		return -EINVAL;
	return anynet_parse_text(row, text, cfg);
}

int anynet_parse_ifname(const struct anynet_config_row *row, const char *text,
			struct anynet_config *cfg)
{
	/* NCCL silently ignores a value of one character (net-api.md §5.3). An error ignores it with a WARN. */
	if (strlen(text) == 1)
		return -EINVAL;
	return anynet_parse_text(row, text, cfg);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_of_word(char c)
{
	char letter = anynet_lower(c);

	return (letter >= 'a' && letter <= 'z') || is_digit(c) || c == '_' || c == '-';
}

int anynet_parse_word(const struct anynet_config_row *row, const char *text,
		      struct anynet_config *cfg)
{
	for (const char *c = text; *c; c++) {
		if (!is_of_word(*c))
			return -EINVAL;
	}
	return anynet_parse_text(row, text, cfg);
}

/* Reduce "1.2.3.4:5" and "[::1]:5" to the address. Other texts stay as they are. */
static void drop_port(char *text)
{
	char *colon = strrchr(text, ':');
	char *bracket = strchr(text, ']');

	if (*text == '[' && bracket) {
		*bracket = 0;
		memmove(text, text + 1, strlen(text));
	} else if (colon && strchr(text, ':') == colon) {
		*colon = 0;
	}
}

static bool is_network(const char *text)
{
	struct subnet subnet;

	return subnet_parse(text, strlen(text), &subnet);
}

/* NCCL_COMM_ID may be "name:port". Its subnet could only be found with the resolver, so the value is accepted and not
 * used. */
static bool is_host_and_port(const char *text)
{
	const char *colon = strrchr(text, ':');
	long port;

	return colon && colon > text && !anynet_parse_number(colon + 1, &port) && port >= 0 &&
	       port <= UINT16_MAX;
}

int anynet_parse_subnet(const struct anynet_config_row *row, const char *text,
			struct anynet_config *cfg)
{
	char addr[sizeof(cfg->socket_subnet)];
	size_t bytes = strlen(text);

	if (bytes >= sizeof(addr))
		return is_host_and_port(text) ? anynet_parse_text(row, "", cfg) : -EINVAL;
	memcpy(addr, text, bytes + 1);
	drop_port(addr);
	if (!*text || is_network(addr))
		return anynet_parse_text(row, addr, cfg);
	return is_host_and_port(text) ? anynet_parse_text(row, "", cfg) : -EINVAL;
}

int anynet_parse_network(const struct anynet_config_row *row, const char *text,
			 struct anynet_config *cfg)
{
	return !*text || is_network(text) ? anynet_parse_text(row, text, cfg) : -EINVAL;
}

/* Append the next network of *text to `list`, without blanks around it, and advance *text (NULL at the end). */
static int take_network(const char **text, char *list, size_t list_bytes)
{
	const char *start = *text + strspn(*text, " \t"), *end = start + strcspn(start, ",");
	size_t bytes = (size_t)(end - start), used = strlen(list);

	while (bytes && strchr(" \t", start[bytes - 1]))
		bytes--;
	if (used + bytes + 2 > list_bytes)
		return -EINVAL;
	if (used)
		list[used++] = ',';
	memcpy(list + used, start, bytes);
	list[used + bytes] = 0;
	*text = *end ? end + 1 : NULL;
	return is_network(list + used) ? 0 : -EINVAL;
}

int anynet_parse_networks(const struct anynet_config_row *row, const char *text,
			  struct anynet_config *cfg)
{
	char list[sizeof(cfg->allow)] = "";

	if (!*text || anynet_same_word(text, "none"))
		return anynet_parse_text(row, *text ? "none" : "", cfg);
	while (text)
		if (take_network(&text, list, sizeof(list)))
			return -EINVAL;
	return anynet_parse_text(row, list, cfg);
}

int anynet_parse_ports(const struct anynet_config_row *row, const char *text,
		       struct anynet_config *cfg)
{
	const char *end;
	long lo = 0, hi = 0;

	if (!anynet_same_word(text, "auto") && strcmp(text, "0")) {
		if (leading_number(text, &lo, &end) || *end != '-' ||
		    !is_digit(end[1]) || anynet_parse_number(end + 1, &hi))
			return -EINVAL;
		if (lo < row->min || hi > row->max || lo > hi)
			return -EINVAL;
	}
	cfg->port_min = (int)lo;
	cfg->port_max = (int)hi;
	return 0;
}
