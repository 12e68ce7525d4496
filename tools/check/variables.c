/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's variables and the syntax of their values; see variables.h. */
#include "variables.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <nccl_net/subnet.h>

#include "plugin/config_names.h"

#include "tools/shared/text.h"

#define TYPED_LEAST 3 /* shorter names after the prefix are not matched as typos */

const struct nccl_variable nccl_variables[] = {
#define VARIABLE(group, name, since, until, syntax, least, most, words, meaning) \
	{ name, VARIABLE_##group, since, until, SYNTAX_##syntax, least, most, words, meaning },
#include "plugin/nccl_variables.def"
#undef VARIABLE
};
const size_t nccl_variable_count = ARRAY_SIZE(nccl_variables);

const struct nccl_variable *variable_of(const char *name)
{
	for (size_t i = 0; i < nccl_variable_count; i++) {
		if (!strcmp(nccl_variables[i].name, name))
			return &nccl_variables[i];
	}
	return NULL;
}

const struct nccl_variable *variable_meant(const char *typed)
{
	const struct nccl_variable *nearest = NULL;
	const char *own = strchr(typed, '_');
	size_t bytes = strlen(typed), most, best;

	if (!own || strlen(own + 1) < TYPED_LEAST)
		return NULL;
	most = anynet_name_typo_distance(own + 1);
	best = most + 1;
	for (size_t i = 0; i < nccl_variable_count; i++) {
		size_t length = strlen(nccl_variables[i].name), letters;

		/* The difference in length is a lower bound of the distance. */
		if (nccl_variables[i].group == VARIABLE_OTHERS || length > bytes + most ||
		    bytes > length + most)
			continue;
		letters = anynet_name_distance(typed, nccl_variables[i].name);
		if (letters < best) {
			nearest = &nccl_variables[i];
			best = letters;
		}
	}
	return nearest;
}

/* Parses an integer as NCCL does: base 0, with nothing after it. */
static bool parse_whole(const char *value, long *number)
{
	char *end;

	errno = 0;
	*number = strtol(value, &end, 0);
	return end != value && !*end && !errno;
}

static bool takes_int(const struct nccl_variable *variable, const char *value)
{
	long number;

	if (!parse_whole(value, &number))
		return false;
	if (variable->syntax == SYNTAX_FLAG)
		return true; /* any value but 0 counts as 1 */
	if (variable->syntax == SYNTAX_AUTO && (number == -1 || number == -2))
		return true;
	return number >= variable->least && number <= variable->most;
}

static bool takes_number(const char *value)
{
	char *end;
	double number = strtod(value, &end);

	return end != value && !*end && number > 0;
}

/* True if the word is one of "a|b|c*", ignoring case. */
static bool is_word(const char *words, const char *word, size_t bytes)
{
	while (*words) {
		size_t length = strcspn(words, "|");
		bool open = length && words[length - 1] == '*';

		if (open ? bytes >= length - 1 && !strncasecmp(word, words, length - 1)
			 : bytes == length && !strncasecmp(word, words, bytes))
			return true;
		words += length + (words[length] == '|');
	}
	return false;
}

bool variable_is_word(const char *words, const char *value)
{
	return is_word(words, value, strlen(value));
}

/* True if all words of a comma-separated list are known; a leading '^' inverts the list. */
static bool are_words(const char *words, const char *list, size_t bytes)
{
	const char *end = list + bytes;

	if (list < end && *list == '^')
		list++;
	while (list < end) {
		const char *comma = memchr(list, ',', (size_t)(end - list));
		const char *stop = comma ? comma : end;

		if (!is_word(words, list, (size_t)(stop - list)))
			return false;
		list = comma ? comma + 1 : end;
	}
	return true;
}

/* Accepts "ring,tree", and since 2.24 "ring;allreduce:tree,nvls;broadcast:^ring". */
static bool are_kinds(const char *words, const char *value)
{
	static const char functions[] = "broadcast|reduce|allgather|reducescatter|allreduce|"
					"alltoall|gather|scatter|sendrecv";

	while (*value) {
		size_t bytes = strcspn(value, ";"), name = strcspn(value, ":;");

		if (name < bytes) {
			if (!is_word(functions, value, name))
				return false;
			name++;
		} else {
			name = 0;
		}
		if (!are_words(words, value + name, bytes - name))
			return false;
		value += bytes + (value[bytes] == ';');
	}
	return true;
}

static bool is_level(const char *value)
{
	long number;

	if (parse_whole(value, &number))
		return number >= 0;
	return variable_is_word("LOC|PORT|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS", value);
}

/* Accepts "[^][=]name,name" without blanks and empty names. */
static bool is_name_list(const char *value, size_t least)
{
	if (strlen(value) < least)
		return false;
	value += *value == '^';
	value += *value == '=';
	if (!*value || strpbrk(value, " \t\"'"))
		return false;
	while (*value) {
		size_t bytes = strcspn(value, ",");

		if (!bytes || (value[bytes] == ',' && !value[bytes + 1]))
			return false;
		value += bytes + (value[bytes] == ',');
	}
	return true;
}

/* Accepts "host:port" and "[::1]:port". */
static bool is_host_port(const char *value)
{
	const char *colon = strrchr(value, ':');
	long port;

	return colon && colon > value && parse_whole(colon + 1, &port) && port >= 0 &&
	       port <= UINT16_MAX;
}

static bool is_cidr(const char *value)
{
	struct subnet subnet;

	return subnet_parse(value, strlen(value), &subnet);
}

bool variable_takes(const struct nccl_variable *variable, const char *value)
{
	if (!*value)
		return true;
	switch (variable->syntax) {
	case SYNTAX_FLAG:
	case SYNTAX_INT:
	case SYNTAX_AUTO:
		return takes_int(variable, value);
	case SYNTAX_NUMBER:
		return takes_number(value);
	case SYNTAX_WORD:
		return variable_is_word(variable->words, value);
	case SYNTAX_WORDS:
		return are_words(variable->words, value, strlen(value));
	case SYNTAX_KINDS:
		return are_kinds(variable->words, value);
	case SYNTAX_LEVEL:
		return is_level(value);
	case SYNTAX_IFNAMES:
		return is_name_list(value, 2);
	case SYNTAX_HCAS:
		return is_name_list(value, 1);
	case SYNTAX_FAMILY:
		return !strcmp(value, "AF_INET") || !strcmp(value, "AF_INET6");
	case SYNTAX_CIDR:
		return is_cidr(value);
	case SYNTAX_PORT:
		return is_host_port(value);
	case SYNTAX_FILE:
		return *value != '~';
	case SYNTAX_TEXT:
	case SYNTAX_LIBRARY:
		break;
	}
	return true;
}

const char *variable_accepts(const struct nccl_variable *variable)
{
	static const char *const texts[] = {
		[SYNTAX_FLAG] = "0 or 1",
		[SYNTAX_NUMBER] = "a number above 0",
		[SYNTAX_WORD] = "one of",
		[SYNTAX_WORDS] = "a list of",
		[SYNTAX_KINDS] = "a list of",
		[SYNTAX_LEVEL] = "LOC, NVL, PIX, PXB, PHB or SYS",
		[SYNTAX_IFNAMES] = "[^][=]name,… of at least 2 characters, without blanks",
		[SYNTAX_HCAS] = "[^][=]name[:port],… without blanks",
		[SYNTAX_FAMILY] = "AF_INET or AF_INET6",
		[SYNTAX_CIDR] = "address/prefix",
		[SYNTAX_PORT] = "address:port",
		[SYNTAX_FILE] = "a path; ~ is not expanded",
		[SYNTAX_TEXT] = "a text",
		[SYNTAX_LIBRARY] = "a text",
	};
	const char *also = variable->syntax == SYNTAX_AUTO ? ", or -1" : "", *word;
	const char *text = texts[variable->syntax], *words = variable->words;

	if (!text && variable->most == INT_MAX)
		return text_format("a whole number from %ld on%s", variable->least, also);
	if (!text)
		return text_format("a whole number from %ld to %ld%s", variable->least,
				   variable->most, also);
	if (variable->syntax == SYNTAX_WORD || variable->syntax == SYNTAX_WORDS ||
	    variable->syntax == SYNTAX_KINDS) {
		for (bool first = true; (word = text_next(&words, "|")); first = false)
			text = text_format("%s%s %s", text, first ? "" : ",", word);
	}
	return text;
}
