/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of settings: one parser each. A parser follows struct anynet_config_row.parse: it writes the field at
 * row->offset and returns 0, or leaves the field unchanged and returns -EINVAL. `text` has no blanks around it; it is
 * empty only if the row's default is empty.
 */
#ifndef ANYNET_CONFIG_PARSE_H
#define ANYNET_CONFIG_PARSE_H

#include <nccl_net/config.h>

#define KIB 1024L
#define MIB (1024L * KIB)
#define GIB (1024L * MIB)
#define SEC 1000L /* milliseconds */

typedef int anynet_config_parser(const struct anynet_config_row *row, const char *text,
				 struct anynet_config *cfg);

/* Field types in parentheses. Numbers have the syntax that NCCL accepts: strtoll with base 0, no text behind them. */
anynet_config_parser anynet_parse_flag;       /* (bool) 0 or any other number, on/off, … */
anynet_config_parser anynet_parse_choice;     /* (int) a word of row->choices */
anynet_config_parser anynet_parse_int;        /* (int) row->min … row->max */
anynet_config_parser anynet_parse_auto_int;   /* (int) as _int, or auto */
anynet_config_parser anynet_parse_size;       /* (size_t) bytes, suffix k, m or g */
anynet_config_parser anynet_parse_chunk;      /* (size_t) as _size, a multiple of 128 */
anynet_config_parser anynet_parse_auto_size;  /* (int) bytes with suffix, or ANYNET_AUTO */
anynet_config_parser anynet_parse_time;       /* (int, ms) suffix ms, s or min; without one, seconds */
anynet_config_parser anynet_parse_text;       /* (char[]) at most row->max bytes */
anynet_config_parser anynet_parse_path;       /* (char[]) "" or /path */
anynet_config_parser anynet_parse_directory;  /* (char[]) "auto", "off" or /path */
anynet_config_parser anynet_parse_ifname;     /* (char[]) as _text, but not a single character */
anynet_config_parser anynet_parse_word;       /* (char[]) letters, digits, '_' and '-' */
anynet_config_parser anynet_parse_subnet;     /* (char[]) address[/prefix], or as NCCL_COMM_ID */
anynet_config_parser anynet_parse_network;    /* (char[]) address[/prefix] */
anynet_config_parser anynet_parse_networks;   /* (char[]) address[/prefix],… or "none" */
anynet_config_parser anynet_parse_ports;      /* (int, int) port_min and port_max */

/* The words of enum anynet_switch, of enum anynet_transport_choice, and of AF_…. */
extern const struct anynet_choice anynet_switch_choices[], anynet_transport_choices[],
	anynet_family_choices[];

/* Parse a number in NCCL's syntax. 0 or -EINVAL. */
int anynet_parse_number(const char *text, long *value);

#endif
