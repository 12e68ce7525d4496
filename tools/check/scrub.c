/* SPDX-License-Identifier: Apache-2.0 */
/* Removal of private data from a report; see scrub.h. */
#include "scrub.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nccl_net/config.h>

#include "tools/shared/secret_name.h"
#include "variables.h"

#define SECRET_LEAST 4  /* bytes; shorter values occur in any text */
#define SECRET_PART  12 /* bytes by which a truncated secret is recognised */
#define SERIAL_LEAST 12 /* consecutive hexadecimal digits that count as a serial number */
#define TOKEN_BYTES  64
#define LIST_ENDS    ", \t\n[]"
#define RANGE_MAX    4096        /* names; each word of the report is compared with all */
#define HOSTS_BYTES  (256 << 10) /* maximum read from /etc/hosts */

bool scrub_is_known(const char *name)
{
	if (is_secret_name(name))
		return false;
	for (size_t i = 0; i < anynet_config_row_count; i++)
		if (!strcmp(name, anynet_config_rows[i].name))
			return true;
	return variable_of(name);
}

/* True if a variable of this name may hold a secret, or its meaning is unknown. */
static bool is_private(const char *name)
{
	return is_secret_name(name) ||
	       ((!strncmp(name, "NCCL_", 5) || !strncmp(name, "ANYNET_", 7)) &&
		!scrub_is_known(name));
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-';
}

static void add(struct text_list *list, const char *text, size_t bytes)
{
	if (bytes)
		text_list_add_new(list, text_copy(text, bytes));
}

/* Adds a host name, with and without its domain. */
static void add_host(struct scrub *scrub, const char *name, size_t bytes)
{
	size_t first = strcspn(name, ".");
	bool has_letter = false;

	for (size_t i = 0; i < bytes; i++)
		has_letter |= isalpha((unsigned char)name[i]) != 0;
	if (!has_letter || !strncasecmp(name, "localhost", 9) || !strncmp(name, "ip6-", 4))
		return;
	add(&scrub->hosts, name, bytes);
	add(&scrub->hosts, name, first < bytes ? first : bytes);
}

/* Adds the names of "node[3-4,07]-ib"; `list` is what the brackets contain. */
static void add_range(struct scrub *scrub, const char *prefix, size_t bytes, const char *list)
{
	const char *suffix = list + strcspn(list, "]");
	int suffix_bytes;

	suffix += *suffix ? 1 : 0;
	suffix_bytes = (int)strcspn(suffix, LIST_ENDS);
	while (isdigit((unsigned char)*list)) {
		int digits = (int)anynet_min(strspn(list, "0123456789"), 20);
		char *end;
		unsigned long from = strtoul(list, &end, 10);
		unsigned long to = *end == '-' ? strtoul(end + 1, &end, 10) : from;

		for (unsigned long i = from; i <= to && i - from < RANGE_MAX; i++) {
			char *name = text_format("%.*s%0*lu%.*s", (int)bytes, prefix, digits, i,
						 suffix_bytes, suffix);

			add_host(scrub, name, strlen(name));
		}
		list = end + (*end == ',');
	}
}

/* Adds each name of a list such as "node1,node[3-4]"; of a range, also the part before the bracket. */
static void add_hosts(struct scrub *scrub, const char *text)
{
	while (*text) {
		size_t bytes = strcspn(text, LIST_ENDS), name = strcspn(text, LIST_ENDS ":");

		/* "name" or "name:port"; more colons are an IPv6 address. */
		if (!memchr(text + name + (name < bytes), ':', bytes - name - (name < bytes)))
			add_host(scrub, text, name);
		if (text[bytes] == '[') {
			add_range(scrub, text, bytes, text + bytes + 1);
			bytes += strcspn(text + bytes, "]");
			bytes += strcspn(text + bytes, ", \t\n");
		}
		text += bytes + (text[bytes] ? 1 : 0);
	}
}

static void add_from_environment(struct scrub *scrub)
{
	static const char *const hosts[] = {
		"HOSTNAME",
		"MASTER_ADDR",
		"NCCL_COMM_ID",
		"SLURM_NODELIST",
		"SLURM_JOB_NODELIST",
		"NODELIST",
		"LSB_HOSTS",
		"SLURMD_NODENAME",
		"PMIX_HOSTNAME",
		"SLURM_LAUNCH_NODE_IPADDR",
		"HOST",
		"NODE_NAME",
		"POD_NAME",
	};
	static const char *const users[] = { "USER", "LOGNAME", "USERNAME", "SUDO_USER" };

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
		if (host_env(hosts[i]))
			add_hosts(scrub, host_env(hosts[i]));
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		if (host_env(users[i]) && strcmp(host_env(users[i]), "root") != 0)
			add(&scrub->users, host_env(users[i]), strlen(host_env(users[i])));
	for (char **variable = environ; *variable; variable++) {
		const char *value = strchr(*variable, '=');
		char *name = value ? text_copy(*variable, (size_t)(value - *variable)) : NULL;

		/* Printable, as findings contain it. */
		if (name && is_private(name) && strlen(value + 1) >= SECRET_LEAST)
			text_list_add_new(&scrub->secrets, text_printable(value + 1));
	}
}

static void add_from_hosts_file(struct scrub *scrub, const struct host *host)
{
	const char *text = host_read(host, "/etc/hosts", HOSTS_BYTES, NULL);
	char *line;

	while (text && (line = text_next(&text, "\n"))) {
		line[strcspn(line, "#")] = 0;
		add_hosts(scrub, line + strcspn(line, " \t"));
	}
}

static int longest_first(const void *a, const void *b)
{
	size_t first = strlen(*(char *const *)a), second = strlen(*(char *const *)b);

	return (first < second) - (first > second);
}

void scrub_open(struct scrub *scrub, const struct host *host, bool keep_names)
{
	const struct passwd *user = getpwuid(getuid());
	struct utsname names;

	*scrub = (struct scrub){ .keep_names = keep_names };
	if (!uname(&names))
		add_host(scrub, names.nodename, strlen(names.nodename));
	if (user && strcmp(user->pw_name, "root") != 0)
		add(&scrub->users, user->pw_name, strlen(user->pw_name));
	add_from_environment(scrub);
	add_from_hosts_file(scrub, host);
	if (scrub->hosts.count)
		qsort(scrub->hosts.items, scrub->hosts.count, sizeof(char *), longest_first);
}

static size_t number_of(struct text_list *list, const char *item)
{
	for (size_t i = 0; i < list->count; i++)
		if (!strcmp(list->items[i], item))
			return i + 1;
	text_list_add(list, text_dup(item));
	return list->count;
}

/* If `at` begins with one of the names as a whole word, returns its number and its length in
 * *bytes; 0 = none. */
static size_t name_at(const struct text_list *names, struct text_list *seen, const char *at,
		      size_t *bytes)
{
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->items[i];

		*bytes = strlen(name);
		if (!strncasecmp(at, name, *bytes) && !is_word(at[*bytes]))
			return number_of(seen, text_copy(name, strcspn(name, ".")));
	}
	return 0;
}

static size_t groups(const char *token, size_t digits)
{
	size_t count = 0, in = 0;

	for (;; token++) {
		if (isxdigit((unsigned char)*token)) {
			in++;
			continue;
		}
		if (in != digits)
			return 0;
		count++;
		in = 0;
		if (!*token)
			return count;
	}
}

static bool is_serial(const char *token)
{
	size_t hex = strspn(token, "0123456789abcdefABCDEF");

	if (!token[hex])
		return hex >= SERIAL_LEAST && strpbrk(token, "0123456789");
	return groups(token, 2) == 6 || groups(token, 2) == 8 || groups(token, 2) == 20 ||
	       groups(token, 4) == 4;
}

/* Returns the kind of an address; NULL = none, or one that every host has. */
static const char *kind_of(const char *token)
{
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, token, &four) == 1) {
		uint32_t address = ntohl(four.s_addr);

		return !address || address >> 24 == 127 ? NULL
		       : address >> 16 == 0xa9fe        ? "link-local"
							: "ipv4";
	}
	if (is_serial(token))
		return "serial";
	if (inet_pton(AF_INET6, token, &six) != 1 || IN6_IS_ADDR_UNSPECIFIED(&six) ||
	    IN6_IS_ADDR_LOOPBACK(&six))
		return NULL;
	return IN6_IS_ADDR_LINKLOCAL(&six)  ? "link-local"
	       : IN6_IS_ADDR_V4MAPPED(&six) ? "ipv4-mapped"
					    : "ipv6";
}

/* If an address begins at `at`, returns its kind, length and number; NULL = none. */
static const char *address_at(struct scrub *scrub, const char *at, size_t *bytes, size_t *number)
{
	size_t span = strspn(at, "0123456789abcdefABCDEF:."), prefix = 0;
	char token[TOKEN_BYTES];
	const char *kind;

	if (!strncmp(at, "0x", 2)) {
		prefix = 2;
		span = strspn(at + 2, "0123456789abcdefABCDEF");
	}
	while (span &&
	       (at[prefix + span - 1] == '.' ||
		(at[prefix + span - 1] == ':' && (span < 2 || at[prefix + span - 2] != ':'))))
		span--;
	if (span < 2 || span >= sizeof(token) || isalnum((unsigned char)at[prefix + span]))
		return NULL;
	memcpy(token, at + prefix, span);
	token[span] = 0;
	kind = kind_of(token);
	if (!kind && strrchr(token, ':') && strrchr(token, ':') > token) {
		*strrchr(token, ':') = 0; /* may be followed by a port */
		span = strlen(token);
		kind = strchr(token, ':') ? NULL : kind_of(token);
	}
	if (!kind)
		return NULL;
	*bytes = prefix + span;
	*number = number_of(&scrub->addresses, token);
	return kind;
}

/* Returns how many bytes at `at` belong to a secret: all of it, or at least SECRET_PART bytes of a
 * truncated one; 0 = none. */
static size_t secret_at(const struct text_list *secrets, const char *at)
{
	size_t most = 0;

	for (size_t i = 0; i < secrets->count; i++) {
		const char *secret = secrets->items[i];
		size_t same = 0;

		while (secret[same] && secret[same] == at[same])
			same++;
		if ((!secret[same] || same >= SECRET_PART) && same > most)
			most = same;
	}
	return most;
}

/* Returns the length of a domain such as ".example.com" after a host name. */
static size_t domain_at(const char *at)
{
	size_t bytes = 0;

	while (at[bytes] == '.' && isalpha((unsigned char)at[bytes + 1]))
		for (bytes++; is_word(at[bytes]);)
			bytes++;
	return bytes;
}

/* Returns the replacement for the first *bytes bytes of `at`; NULL = keep them. */
static char *replacement(struct scrub *scrub, const char *at, char before, size_t *bytes)
{
	const char *kind;
	size_t number;

	*bytes = secret_at(&scrub->secrets, at);
	if (*bytes)
		return text_format("[secret]");
	if (scrub->keep_names || isalnum((unsigned char)before))
		return NULL;
	number = is_word(before) ? 0 : name_at(&scrub->hosts, &scrub->seen_hosts, at, bytes);
	if (number) {
		*bytes += domain_at(at + *bytes);
		return text_format("host-%zu", number);
	}
	number = is_word(before) ? 0 : name_at(&scrub->users, &scrub->seen_users, at, bytes);
	if (number)
		return text_format("user-%zu", number);
	if (before == ':' || before == '.')
		return NULL;
	kind = address_at(scrub, at, bytes, &number);
	return kind ? text_format("%s-%zu", kind, number) : NULL;
}

char *scrub_text(struct scrub *scrub, const char *text)
{
	const char *done = "";
	const char *plain = text, *at = text;

	while (*at) {
		size_t bytes;
		char *word = replacement(scrub, at, at == text ? ' ' : at[-1], &bytes);

		if (!word) {
			at++;
			continue;
		}
		done = text_format("%s%.*s%s", done, (int)(at - plain), plain, word);
		at += bytes;
		plain = at;
	}
	return text_format("%s%s", done, plain);
}

/* Members that are not private but may look like an address: "5.8.2.0". */
static bool is_plain(const char *name)
{
	static const char *const names[] = { "firmware", "version", "release", "driver" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

json_t *scrub_json(struct scrub *scrub, json_t *value)
{
	json_t *copy, *item;
	const char *name;
	size_t index;

	switch (json_typeof(value)) {
	case JSON_STRING:
		return json_string(scrub_text(scrub, json_string_value(value)));
	case JSON_ARRAY:
		copy = json_array();
		json_array_foreach (value, index, item)
			json_array_append_new(copy, scrub_json(scrub, item));
		return copy;
	case JSON_OBJECT:
		copy = json_object();
		json_object_foreach (value, name, item)
			json_object_set_new(copy, name,
					    is_plain(name) ? json_deep_copy(item)
							   : scrub_json(scrub, item));
		return copy;
	default:
		return json_deep_copy(value);
	}
}
