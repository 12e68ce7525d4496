/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the settings from the environment and prints them. Elsewhere the environment is read by selector.c (NCCL_NET, when
 * the plugin is loaded), log.c (levels) and config_names.c (names that are no setting). */
#include <nccl_net/config.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config_names.h"
#include "config_parse.h"

#include <nccl_net/log.h>
#include <nccl_net/wire.h>

/* The value without white space around it. False: it is too long. */
static bool trim(const char *value, char text[ANYNET_LIST_BYTES])
{
	size_t bytes;

	value += strspn(value, " \t\r\n");
	bytes = strlen(value);
	while (bytes && strchr(" \t\r\n", value[bytes - 1]))
		bytes--;
	if (bytes >= ANYNET_LIST_BYTES)
		return false;
	memcpy(text, value, bytes);
	text[bytes] = 0;
	return true;
}

int anynet_config_parse(const struct anynet_config_row *row, const char *value,
			struct anynet_config *cfg)
{
	char text[ANYNET_LIST_BYTES];

	if (!trim(value, text) || (row->refused && *value && !*text))
		return -EINVAL; /* only the empty value restricts nothing */
	return row->parse(row, text, cfg);
}

static bool row_lower_count(const struct anynet_config_row *row, const char *value,
			    struct anynet_config *cfg)
{
	char text[ANYNET_LIST_BYTES], most[32];
	long number;

	if (!row->lowered || !trim(value, text) || anynet_parse_number(text, &number) ||
	    number <= row->max)
		return false;
	snprintf(most, sizeof(most), "%ld", row->max);
	anynet_warn("%s %.80s exceeds %s; using %s", row->alias, value, most, most);
	return !row->parse(row, most, cfg);
}

/* An empty variable counts as unset, as it does in NCCL. */
static const char *get_variable(const char *name)
{
	const char *value = name ? getenv(name) : NULL;

	return value && *value ? value : NULL;
}

/* An invalid list must still restrict, so `refused` replaces it. NCCL ignores an interface list of one character, so
 * the default replaces that. */
static const char *instead_of(const struct anynet_config_row *row, const char *value)
{
	bool is_none = row->parse == anynet_parse_ifname && !value[1];

	return row->refused && !is_none ? row->refused : row->initial;
}

static enum anynet_config_source row_load(const struct anynet_config_row *row,
					  struct anynet_config *cfg)
{
	const char *value = get_variable(row->name);
	const char *instead;
	enum anynet_config_source source = ANYNET_FROM_ENV;

	anynet_config_parse(row, row->initial, cfg);
	if (!value) {
		value = get_variable(row->alias);
		source = ANYNET_FROM_ALIAS;
	}
	if (!value)
		return ANYNET_FROM_DEFAULT;
	if (!anynet_config_parse(row, value, cfg))
		return source;
	if (source == ANYNET_FROM_ALIAS && row_lower_count(row, value, cfg))
		return source;
	instead = instead_of(row, value);
	anynet_warn("%s '%.80s' is not accepted (%s); using %s",
		    source == ANYNET_FROM_ENV ? row->name : row->alias, value, row->accepts,
		    *instead ? instead : "the default");
	row->parse(row, instead, cfg);
	return ANYNET_FROM_DEFAULT;
}

static size_t row_index(size_t offset)
{
	size_t i = 0;

	while (anynet_config_rows[i].offset != offset)
		i++;
	return i;
}

/* NCCL's number of sockets per connection is threads times sockets per thread, which defaults to 1 (net-api.md §5.3).
 * Here streams need no threads, so 0 threads count as 1. */
static void honour_nccl_streams(struct anynet_config *cfg, enum anynet_config_source *sources)
{
	enum anynet_config_source *streams_from =
		&sources[row_index(offsetof(struct anynet_config, streams_per_nic))];
	size_t threads_row = row_index(offsetof(struct anynet_config, io_threads));
	int streams;

	if (sources[threads_row] != ANYNET_FROM_ALIAS || cfg->io_threads <= 0 ||
	    *streams_from == ANYNET_FROM_ENV)
		return;
	streams = cfg->io_threads * (cfg->streams_per_nic > 0 ? cfg->streams_per_nic : 1);
	if (streams > ANYNET_STREAMS_MAX) {
		anynet_warn("NCCL_SOCKET_NTHREADS %d times NCCL_NSOCKS_PERTHREAD %d exceeds %d; "
			    "using %d TCP connections",
			    cfg->io_threads, cfg->streams_per_nic, ANYNET_STREAMS_MAX,
			    ANYNET_STREAMS_MAX);
		streams = ANYNET_STREAMS_MAX;
	}
	cfg->streams_per_nic = streams;
	*streams_from = ANYNET_FROM_ALIAS;
}

/* A copied send stays in the replay ring until it is acknowledged, so it may take at most half of the ring. */
static void fit_eager_into_replay(struct anynet_config *cfg)
{
	size_t most = cfg->replay_bytes / 2;

	if (cfg->eager_bytes <= most)
		return;
	anynet_warn("ANYNET_TCP_EAGER %zu exceeds half of ANYNET_TCP_REPLAY %zu; using %zu",
		    cfg->eager_bytes, cfg->replay_bytes, most);
	cfg->eager_bytes = most;
}

/* Copy the first of these variables that is set. */
static void take_first(const char *const *names, char *text, size_t bytes)
{
	const char *value = NULL;

	for (; *names && !value; names++)
		value = get_variable(*names);
	snprintf(text, bytes, "%s", value ? value : "");
}

static void ask_launcher(struct anynet_config *cfg)
{
	static const char *const jobs[] = { "SLURM_JOB_ID", "PBS_JOBID",           "LSB_JOBID",
					    "JOB_ID",       "TORCHELASTIC_RUN_ID", NULL };
	static const char *const ranks[] = { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
					     "PMI_RANK", NULL };

	take_first(jobs, cfg->job, sizeof(cfg->job));
	take_first(ranks, cfg->rank, sizeof(cfg->rank));
}

void anynet_config_load(struct anynet_config *cfg, enum anynet_config_source *sources)
{
	enum anynet_config_source scratch[ANYNET_CONFIG_ROWS_MAX];
	const char *first, *wire;

	if (!sources)
		sources = scratch;
	memset(cfg, 0, sizeof(*cfg));
	for (size_t i = 0; i < anynet_config_row_count; i++)
		sources[i] = row_load(&anynet_config_rows[i], cfg);
	cfg->socket_subnet_own =
		sources[row_index(offsetof(struct anynet_config, socket_subnet))] ==
		ANYNET_FROM_ENV;
	honour_nccl_streams(cfg, sources);
	fit_eager_into_replay(cfg);
	ask_launcher(cfg);
	first = get_variable("TEST_ANYNET_FIRST_NUMBER");
	cfg->first_number = first ? (uint32_t)strtoul(first, NULL, 0) : 0;
	wire = get_variable("TEST_ANYNET_WIRE");
	if (wire)
		sscanf(wire, "%hu,%hu", &cfg->wire_oldest_later, &cfg->wire_newest_later);
	anynet_config_check_names();
}

static const char *format_bytes(long bytes, char *buf, size_t buf_bytes)
{
	if (bytes == ANYNET_AUTO)
		snprintf(buf, buf_bytes, "auto");
	else if (bytes && bytes % GIB == 0)
		snprintf(buf, buf_bytes, "%ldg", bytes / GIB);
	else if (bytes && bytes % MIB == 0)
		snprintf(buf, buf_bytes, "%ldm", bytes / MIB);
	else if (bytes && bytes % KIB == 0)
		snprintf(buf, buf_bytes, "%ldk", bytes / KIB);
	else
		snprintf(buf, buf_bytes, "%ld", bytes);
	return buf;
}

static const char *format_int(int value, char *buf, size_t bytes)
{
	if (value == ANYNET_AUTO)
		snprintf(buf, bytes, "auto");
	else
		snprintf(buf, bytes, "%d", value);
	return buf;
}

static const char *format_time(int ms, char *buf, size_t bytes)
{
	if (ms % SEC)
		snprintf(buf, bytes, "%dms", ms);
	else
		snprintf(buf, bytes, "%lds", ms / SEC);
	return buf;
}

static const char *format_choice(const struct anynet_choice *choice, int value)
{
	while (choice->text && choice->value != value)
		choice++;
	return choice->text;
}

const char *anynet_config_format(const struct anynet_config_row *row,
				 const struct anynet_config *cfg, char *buf, size_t bytes)
{
	const void *field = (const char *)cfg + row->offset;
	const int *number = field; /* for rows whose field is an int */

	if (row->parse == anynet_parse_size || row->parse == anynet_parse_chunk)
		return format_bytes((long)*(const size_t *)field, buf, bytes);
	if (row->parse == anynet_parse_auto_size)
		return format_bytes(*number, buf, bytes);
	if (row->parse == anynet_parse_time)
		return format_time(*number, buf, bytes);
	if (row->parse == anynet_parse_int || row->parse == anynet_parse_auto_int)
		return format_int(*number, buf, bytes);
	if (row->parse == anynet_parse_ports && cfg->port_min)
		snprintf(buf, bytes, "%d-%d", cfg->port_min, cfg->port_max);
	else if (row->parse == anynet_parse_ports)
		snprintf(buf, bytes, "auto");
	else if (row->parse == anynet_parse_flag)
		snprintf(buf, bytes, "%d", *(const bool *)field);
	else if (row->choices)
		snprintf(buf, bytes, "%s", format_choice(row->choices, *number));
	else
		snprintf(buf, bytes, "%s", (const char *)field);
	return buf;
}

void anynet_config_print_markdown(FILE *out)
{
	fprintf(out, "| setting | NCCL's variable, if ours is unset | default | accepted | "
		     "meaning |\n|---|---|---|---|---|\n");
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		const struct anynet_config_row *row = &anynet_config_rows[i];

		fprintf(out, "| `%s` | %s%s%s | %s%s%s | %s | %s |\n", row->name,
			row->alias ? "`" : "", row->alias ? row->alias : "", row->alias ? "`" : "",
			*row->initial ? "`" : "", row->initial, *row->initial ? "`" : "",
			row->accepts, row->doc);
	}
}
