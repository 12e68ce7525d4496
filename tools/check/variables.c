/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's variables and the syntax of their values; see variables.h. */
#include "variables.h"

#include <errno.h>
#include <limits.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* True if the whole value matches an extended regular expression, ignoring case. */
static bool matches(const char *value, const char *expression)
{
	regex_t compiled;
	bool good;

	if (regcomp(&compiled, text_format("^(%s)$", expression),
		    REG_EXTENDED | REG_ICASE | REG_NOSUB))
		return false;
	good = !regexec(&compiled, value, 0, NULL, 0);
	regfree(&compiled);
	return good;
}

/* The expression of one of "a|b|c*". */
static char *word_of(const char *words)
{
	const char *text = "";

	for (const char *star; (star = strchr(words, '*')); words = star + 1)
		text = text_format("%s%.*s[^,;]*", text, (int)(star - words), words);
	return text_format("(%s%s)", text, words);
}

/* The expression of a comma-separated list of such words; a leading '^' inverts the list. */
static char *list_of(const char *words)
{
	const char *word = word_of(words);

	return text_format("\\^?(%s(,%s)*,?)?", word, word);
}

/* The expression of "ring,tree", and since 2.24 "ring;allreduce:tree,nvls;broadcast:^ring". */
static char *kinds_of(const char *words)
{
	const char *list =
		text_format("((broadcast|reduce|allgather|reducescatter|allreduce|alltoall|"
			    "gather|scatter|sendrecv):)?%s",
			    list_of(words));

	return text_format("%s(;%s)*", list, list);
}

bool variable_is_word(const char *words, const char *value)
{
	return matches(value, word_of(words));
}

static bool is_level(const char *value)
{
	long number;

	if (parse_whole(value, &number))
		return number >= 0;
	return variable_is_word("LOC|PORT|NVL|NVB|C2C|PIX|PXB|P2C|PXN|PHB|SYS", value);
}

/* "[^][=]name,name" without blanks and empty names. */
static bool is_names(const char *value)
{
	value += *value == '^';
	value += *value == '=';
	return matches(value, "[^ \t\"',]+(,[^ \t\"',]+)*");
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
		return matches(value, list_of(variable->words));
	case SYNTAX_KINDS:
		return matches(value, kinds_of(variable->words));
	case SYNTAX_LEVEL:
		return is_level(value);
	case SYNTAX_IFNAMES:
		return strlen(value) > 1 && is_names(value);
	case SYNTAX_HCAS:
		return is_names(value);
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
