/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the name, value, release and origin of every NCCL, PyTorch and anynet variable that is set. */
#include "check.h"
#include "transports/wire/secret.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/config_names.h"

#include "tools/shared/secret_name.h"
#include "variables.h"

#define NAME_BYTES     128
#define RELEASES_NAMED 6 /* releases that are listed */

/* " (in /etc/nccl.conf:3)", or "". */
static const char *origin(const struct check *check, const char *name)
{
	const struct conf_line *line = conf_origin(&check->conf, name);

	return line ? text_format(" (in %s:%u)", line->file, line->number) : "";
}

/* Returns anynet's setting for which this NCCL variable is an alias; NULL = none. */
static const struct anynet_config_row *row_of_alias(const char *name)
{
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		if (anynet_config_rows[i].alias && !strcmp(anynet_config_rows[i].alias, name))
			return &anynet_config_rows[i];
	}
	return NULL;
}

static const struct anynet_config_row *row_of(const char *name)
{
	for (size_t i = 0; i < anynet_config_row_count; i++) {
		if (!strcmp(anynet_config_rows[i].name, name))
			return &anynet_config_rows[i];
	}
	return NULL;
}

/* Reports an accepted value, with its meaning and the first release that reads it. */
static void report_good(struct check *check, const struct nccl_variable *variable,
			const char *value, const char *where)
{
	const struct anynet_config_row *row = row_of_alias(variable->name);
	const char *own = row ? host_env(row->name) : NULL;
	char since[32] = "", version[16];

	if (variable->since)
		snprintf(since, sizeof(since), ", since NCCL %s",
			 nccl_version_text(variable->since, version));
	found(check, CHECK_OK, "set", "%s=%s%s: %s%s%s", variable->name, value, where,
	      variable->meaning, since, row ? "; anynet supports it" : "");
	if (own && strcmp(own, value) != 0) {
		found(check, CHECK_NOTE, "both-set",
		      "anynet uses %s=%s; %s=%s applies to NCCL only", row->name, own,
		      variable->name, value);
	}
}

/* Lists the releases on this host that are older than `since`. */
static char *releases_before(const struct nccl_copies *copies, int since)
{
	struct text_list list = { 0 };
	char version[16];

	for (size_t i = 0; i < copies->count; i++) {
		int code = copies->list[i].version.code;

		if (code > 0 && code < since)
			text_list_add_new(&list, text_dup(nccl_version_text(code, version)));
	}
	for (size_t i = 0; i < copies->user_count; i++) {
		int code = copies->users[i].nccl.code;

		if (code > 0 && code < since)
			text_list_add_new(&list, text_dup(nccl_version_text(code, version)));
	}
	return text_list_join(&list, RELEASES_NAMED);
}

/* Reports variables that the releases on this host do not read. */
static void report_release(struct check *check, const struct nccl_variable *variable,
			   const char *value)
{
	char version[16];

	if (variable->until) {
		found(check, CHECK_WARN, "removed",
		      "%s=%s has no effect: NCCL %s and newer do not read it", variable->name,
		      value, nccl_version_text(variable->until, version));
		found_why(check, "%s", variable->meaning);
		found_fix(check, "unset %s", variable->name);
		return;
	}
	if (!variable->since || !copies_in_range(&check->copies, 1, variable->since - 1))
		return;
	if (!copies_in_range(&check->copies, variable->since, INT_MAX)) {
		const struct anynet_config_row *row = row_of_alias(variable->name);

		found(check, row ? CHECK_NOTE : CHECK_WARN, "too-new",
		      "%s=%s is read by NCCL %s and newer, and all releases on this host are older%s",
		      variable->name, value, nccl_version_text(variable->since, version),
		      row ? "; anynet supports it" : "");
		found_fix(check, "unset it, or install a newer NCCL");
	} else {
		found(check, CHECK_NOTE, "partly-too-new",
		      "%s=%s is read by NCCL %s and newer, but not by NCCL %s on this host",
		      variable->name, value, nccl_version_text(variable->since, version),
		      releases_before(&check->copies, variable->since));
	}
}

static void check_nccl_value(struct check *check, const struct nccl_variable *variable,
			     const char *value, const char *where)
{
	if (variable->group == VARIABLE_OTHERS)
		return;
	if (variable->group == VARIABLE_TORCH && !strncmp(variable->name, "NCCL_", 5)) {
		found(check, CHECK_NOTE, "renamed",
		      "%s=%s%s is a variable of PyTorch, which has named it TORCH_%s since 2.2",
		      variable->name, value, where, variable->name);
		return;
	}
	/* Empty NCCL_NET and NCCL_NET_PLUGIN have a meaning; check_plugin reports them. */
	if (!*value) {
		if (strcmp(variable->name, "NCCL_NET") && strcmp(variable->name, "NCCL_NET_PLUGIN"))
			found(check, CHECK_NOTE, "empty",
			      "%s is set and empty%s, which counts as unset", variable->name,
			      where);
		return;
	}
	if (variable_takes(variable, value)) {
		report_good(check, variable, value, where);
		report_release(check, variable, value);
		return;
	}
	found(check, CHECK_WARN, "bad-value", "%s=%s%s is not accepted", variable->name, value,
	      where);
	found_why(check, "%s (%s); NCCL ignores or misparses invalid values", variable->name,
		  variable->meaning);
	found_fix(check, "set it to %s, or unset it", variable_accepts(variable));
}

static void report_unknown(struct check *check, const char *name, const char *value,
			   const char *where, const char *meant)
{
	found(check, meant ? CHECK_WARN : CHECK_NOTE, "unknown-name",
	      "%s=%s%s: no known NCCL, PyTorch or anynet version reads a variable of this name",
	      name, value, where);
	if (meant) {
		found_why(check, "it has no effect; perhaps %s is meant", meant);
		if (is_secret_name(name)) /* its value is not known here */
			found_fix(check, "export %s=\"$%s\"; unset %s", meant, name, name);
		else
			found_fix(check, "export %s=%s; unset %s", meant, value, name);
	}
}

static void check_nccl_name(struct check *check, const char *name, const char *value,
			    const char *where)
{
	const struct nccl_variable *variable = variable_of(name), *meant;

	if (variable) {
		check_nccl_value(check, variable, value, where);
		return;
	}
	meant = variable_meant(name);
	report_unknown(check, name, value, where, meant ? meant->name : NULL);
}

static void check_own(struct check *check, const char *name, const char *value, const char *where)
{
	const struct anynet_config_row *row = row_of(name);
	struct anynet_config scratch = check->config;
	size_t distance;
	const char *nearest = anynet_config_nearest_own(name, &distance);

	if (!row) {
		if (strcmp(name, nearest) != 0)
			report_unknown(check, name, value, where,
				       anynet_config_own_is_near(name, distance) ? nearest : NULL);
		return;
	}
	if (!*value)
		found(check, CHECK_NOTE, "empty", "%s is set and empty%s, which counts as unset",
		      name, where);
	else if (!anynet_config_parse(row, value, &scratch))
		found(check, CHECK_OK, "set", "%s=%s%s", name, value, where);
	else {
		found(check, row->refused ? CHECK_ERROR : CHECK_WARN, "bad-value",
		      "%s=%s%s is not accepted", name, value, where);
		if (row->refused)
			found_why(check,
				  "anynet uses %s instead, so that the setting still restricts",
				  row->refused);
		else
			found_why(check, "%s", row->doc);
		found_fix(check, "set it to %s, or unset it", row->accepts);
	}
}

static void check_variable(struct check *check, const char *entry)
{
	size_t bytes = strcspn(entry, "=");
	const char *value = entry + bytes + (entry[bytes] == '=');
	const char *where;
	char name[NAME_BYTES];

	if (bytes >= sizeof(name))
		return;
	memcpy(name, entry, bytes);
	name[bytes] = 0;
	/* Users pass reports on: do not print secrets. anynet's own settings name only the file of one. */
	if (is_secret_name(name) && !row_of(name) && *value)
		value = "(not shown)";
	where = origin(check, name);
	if (!strncasecmp(name, "ANYNET_", 7))
		check_own(check, name, value, where);
	else if (!strncasecmp(name, "NCCL_", 5) || !strncasecmp(name, "TORCH_NCCL_", 11))
		check_nccl_name(check, name, value, where);
}

/* Sorted by name, because the order of the environment has no meaning. */
static void check_variables(struct check *check)
{
	struct text_list sorted = { 0 };

	for (char *const *entry = environ; entry && *entry; entry++)
		text_list_add(&sorted, *entry);
	text_list_sort(&sorted);
	for (size_t i = 0; i < sorted.count; i++)
		check_variable(check, sorted.items[i]);
}

/* The name of a line as NCCL reads it. In a line with an error it may contain the value: of a secret only the part that a
 * name can have. */
static const char *name_text(const struct conf_line *line)
{
	const char *name = line->name + strspn(line->name, " \t");
	size_t bytes = 0;

	if (!is_secret_name(name))
		return text_format("%.64s", line->name);
	while (bytes < 64 && (isalnum((unsigned char)name[bytes]) || name[bytes] == '_'))
		bytes++;
	return text_format("%.*s%s", (int)bytes, name,
			   name[bytes] ? " (the rest is not shown)" : "");
}

static const char *line_text(const struct conf_line *line)
{
	const char *name = name_text(line);

	if (line->flaw == CONF_NO_EQUALS)
		return name;
	return text_format("%s=%.64s", name,
			   is_secret_name(line->name) ? "(not shown)" : line->value);
}

static void check_line(struct check *check, const struct conf_line *line)
{
	static const char *const flaws[] = {
		[CONF_NO_EQUALS] = "the line has no '=', and NCCL ignores it",
		[CONF_BLANK_NAME] = "blanks become part of the name, so another variable is set",
		[CONF_CARRIAGE] = "the line has a Windows line end, and the value ends with a "
				  "carriage return",
		[CONF_QUOTED] = "the quotes become part of the value: no shell removes them",
		[CONF_CUT] = "NCCL truncates names and values to 1023 bytes",
	};

	if (line->flaw == CONF_FOREIGN) {
		found(check, CHECK_NOTE, "file-foreign",
		      "%s:%u sets %s, which is not a variable of NCCL", line->file, line->number,
		      name_text(line));
	} else if (line->flaw != CONF_GOOD) {
		found(check, CHECK_WARN, "file-line", "%s:%u: %s", line->file, line->number,
		      line_text(line));
		found_why(check, "%s", flaws[line->flaw]);
		found_fix(check, "write NAME=value, without blanks or quotes");
	} else if (!line->taken) {
		found(check, CHECK_NOTE, "file-overruled",
		      "%s:%u sets %s, which the environment or an earlier line has already set",
		      line->file, line->number, line->name);
	}
}

static void check_files(struct check *check)
{
	const char *named = host_env("NCCL_CONF_FILE");

	for (size_t i = 0; i < check->conf.count; i++)
		check_line(check, &check->conf.lines[i]);
	if (named && !check->conf.readable[0]) {
		found(check, CHECK_WARN, "file-missing", "NCCL_CONF_FILE=%s cannot be read", named);
		found_why(check, "NCCL continues without it and does not log it%s",
			  *named == '~' ? "; it does not expand ~" : "");
		found_fix(check, "write the full path of an existing file");
	}
}

/* Reports the plugin's own warnings, except those about single values. */
static void report_plugin_warnings(struct check *check)
{
	for (size_t i = 0; i < check->warnings.count; i++) {
		const char *text = check->warnings.items[i] + strlen("anynet: ");

		if (strstr(text, "is not accepted") || strstr(text, "is not a setting") ||
		    strstr(text, "is not a variable") || strstr(text, "NCCL_NSOCKS_PERTHREAD"))
			continue; /* reported elsewhere in more detail */
		found(check, CHECK_WARN, "adjusted", "%s", text);
		found_fix(check, "set values that are consistent");
	}
}

/* A file that has a secret is not to be overwritten: the other hosts have the same one. */
static void fix_secret(struct check *check, const char *file)
{
	struct stat st;

	if (!host_stat(&check->host, file, &st) || !S_ISREG(st.st_mode) ||
	    st.st_size < SECRET_MIN_BYTES || st.st_size > SECRET_MAX_BYTES + 1)
		found_fix(
			check,
			"copy the file of the other hosts to %s, or make one for all of them, also in the "
			"container: head -c 32 /dev/urandom | base64 >%s; chmod 600 %s",
			file, file, file);
	else if (st.st_uid != geteuid() && st.st_uid)
		found_fix(check, "chown %u %s", geteuid(), file);
	else if (st.st_mode & (S_IRWXG | S_IRWXO))
		found_fix(check, "chmod 600 %s", file);
	else
		found_fix(check, "make %s readable, and install libcrypto (OpenSSL)", file);
}

/* Loads the secret as the plugin does. Without a usable secret, the plugin refuses all connections. */
static void check_secret(struct check *check)
{
	const char *file = check->config.secret_file;
	char *name = *file ? host_open_name(&check->host, file) : NULL;

	if (*file)
		secret_start(name ? name : file);
	if (!*file || secret_known())
		return;
	found(check, CHECK_ERROR, "secret", "%s", secret_problem());
	found_why(check, "anynet refuses all connections then");
	fix_secret(check, file);
}

void check_settings(struct check *check)
{
	check_secret(check);
	check_variables(check);
	check_files(check);
	report_plugin_warnings(check);
	check_conflicts(check);
}
