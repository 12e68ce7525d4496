/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The types of settings: for each a parser of the text that a user types. They follow struct anynet_config_row.parse: write the field at row->offset and return 0,
 * or leave it alone and return -EINVAL. `text` has no blanks around it and is not empty, except
 * for a default that is.
 */
#ifndef ANYNET_CONFIG_PARSE_H
#define ANYNET_CONFIG_PARSE_H

#include <stddef.h>

#include <nccl_net/config.h>

#define KIB 1024L
#define MIB (1024L * KIB)
#define GIB (1024L * MIB)
#define SEC 1000L /* milliseconds */

typedef int anynet_config_parser(const struct anynet_config_row *row, const char *text,
				 struct anynet_config *cfg);

/* Field types in parentheses. Numbers are read as NCCL does: strtoll in base 0, the whole text. */
anynet_config_parser anynet_parse_flag;       /* (bool) 0 or any other number, on/off, … */
anynet_config_parser anynet_parse_switch;     /* (int) enum anynet_switch */
anynet_config_parser anynet_parse_int;        /* (int) row->min … row->max */
anynet_config_parser anynet_parse_auto_int;   /* (int) the same, or ANYNET_AUTO: auto, -1, -2 */
anynet_config_parser anynet_parse_auto_index; /* (int) the same, where a smaller one will not do */
anynet_config_parser anynet_parse_size;       /* (size_t) bytes, with k, m or g behind */
anynet_config_parser anynet_parse_chunk;      /* (size_t) the same, a multiple of 128 */
anynet_config_parser anynet_parse_auto_size;  /* (int) bytes, or ANYNET_AUTO */
anynet_config_parser anynet_parse_time;      /* (int, in ms) seconds, or with ms, s or min behind */
anynet_config_parser anynet_parse_text;      /* (char[]) at most row->max bytes */
anynet_config_parser anynet_parse_path;      /* (char[]) the same, as /path */
anynet_config_parser anynet_parse_directory; /* (char[]) "auto", "off" or /path */
anynet_config_parser anynet_parse_ifname;    /* (char[]) the same, but not one byte */
anynet_config_parser anynet_parse_word;      /* (char[]) letters, digits, '_' and '-' only */
anynet_config_parser anynet_parse_subnet;    /* (char[]) address[/prefix], or as in NCCL_COMM_ID */
anynet_config_parser anynet_parse_network;   /* (char[]) address[/prefix] */
anynet_config_parser anynet_parse_networks;  /* (char[]) address[/prefix],…, or none */
anynet_config_parser anynet_parse_transport; /* (int) enum anynet_transport_choice */
anynet_config_parser anynet_parse_family;    /* (int) AF_… */
anynet_config_parser anynet_parse_ports;     /* (int, int) port_min and port_max */

/* One whole number, as NCCL reads them. */
int anynet_parse_number(const char *text, long *value);

#endif
